"""Files of random values by xarray, zarr, numcodecs, SciPy, h5py and ecCodes, read by `isobar data` and by themselves:
times, places, values and what is missing are the same.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install xarray zarr numcodecs netCDF4 scipy cftime h5py hdf5plugin eccodes
    /tmp/v/bin/python tests/data/beside.py --isobar build/isobar --rounds 20
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

try:
    import cftime
    import h5py
    import hdf5plugin
    import numcodecs
    import numpy as np
    import xarray as xr
    import zarr
    from scipy.io import netcdf_file
except ImportError as e:
    peer = os.environ.get("ISOBAR_PEER_PYTHON", "")
    if peer and os.path.realpath(peer) != os.path.realpath(sys.executable):
        os.execv(peer, [peer, *sys.argv])
    print("SKIPPED:", e, "- ISOBAR_PEER_PYTHON names a Python that has it")
    sys.exit(0)
try:
    import eccodes
except (ImportError, RuntimeError):
    eccodes = None

warnings.simplefilter("ignore")
STEPS, ROWS, COLUMNS = 5, 6, 8
ISOBAR = ""
IN = None


def isobar(*args):
    run = subprocess.run([ISOBAR, "data", *args, "--json"], capture_output=True, text=True, cwd=IN)
    if run.returncode != 0:
        raise AssertionError(f"isobar data {' '.join(args)}: {run.stderr.strip()}")
    return json.loads(run.stdout)


def refused(*args):
    run = subprocess.run([ISOBAR, "data", *args], capture_output=True, text=True, cwd=IN)
    assert run.returncode == 2, (args, run.returncode, run.stdout)
    return run.stderr


def same(a, b, what, tolerance=1e-4):
    assert np.allclose(a, b, rtol=tolerance, atol=1e-5, equal_nan=True), f"{what}: isobar {a}, beside it {b}"


def values(low=250, high=310):
    return np.random.uniform(low, high, (STEPS, ROWS, COLUMNS)).astype("f4")


def compare(path, fields, what, name="t"):
    """fields [time, row, column]: NaN where a value is missing"""
    seen = isobar("inspect", path, "--mask", "missing")
    at = next(f for f in seen["fields"] if f["name"] == name)
    first = np.asarray(fields[0], "f8")
    same(at["missing"], np.isnan(first).mean(), what + " missing")
    if not np.isnan(first).all():
        same([at["min"], at["max"], at["mean"]], [np.nanmin(first), np.nanmax(first), np.nanmean(first)], what)
    told = isobar("stats", path, "--mask", "missing")
    c = told["channels"].index(name)
    same([told["mean"][c], told["std"][c]], [np.nanmean(fields, dtype="f8"), np.nanstd(fields, dtype="f8")], what + " statistics")
    return seen


def dataset(t, lat=None, lon=None):
    lat = np.linspace(60, 35, ROWS) if lat is None else lat
    lon = np.linspace(0, 35, COLUMNS) if lon is None else lon
    return xr.Dataset({"t": (("time", "lat", "lon"), t, {"units": "K"})},
                      {"time": ("time", np.arange(STEPS) * 6.0, {"units": "hours since 2000-01-01"}),
                       "lat": ("lat", lat, {"units": "degrees_north"}), "lon": ("lon", lon, {"units": "degrees_east"})})


def iso(d):
    return f"{d.year:04d}-{d.month:02d}-{d.day:02d}T{d.hour:02d}:{d.minute:02d}" + (f":{d.second:02d}" if d.second else "") + "Z"


def times():
    calendar = random.choice(["standard", "gregorian", "proleptic_gregorian", "noleap", "365_day", "all_leap", "366_day", "360_day", "julian"])
    unit, scale = random.choice([("days", 4000), ("hours", 100000), ("minutes", 1e6), ("seconds", 1e8), ("milliseconds", 1e9), ("microseconds", 1e12)] +
                                ([("months", 100)] if calendar == "360_day" else []))
    reference = f"{random.choice([1, 4, 1500, 1582, 1850, 1970, 2000])}-{random.randint(1, 9)}-{random.randint(1, 28)}"
    reference += random.choice(["", " 0:0:0", " 06:30:00", " 12:00:00 +05:30", " 12:00:00 -0600", "T03:00:00Z"])
    units = f"{unit} since {reference}"
    start = int(np.random.uniform(0, scale))
    start -= start % {"milliseconds": 1000, "microseconds": 1000000}.get(unit, 1)  # whole seconds
    numbers = start + np.cumsum(np.random.randint(1, 3) * np.ones(STEPS, "i8") * {"milliseconds": 60000, "microseconds": 60000000, "seconds": 60}.get(unit, 1))
    ds = dataset(values()).drop_vars("time")
    packed = random.random() < 0.5 and unit in ("days", "hours")
    attributes = {"units": units, "calendar": calendar} | ({"scale_factor": 0.5, "add_offset": 3.0} if packed else {})
    ds["time"] = ("time", numbers.astype("f8"), attributes)
    ds.to_netcdf(IN + "/times.nc")
    real = numbers * 0.5 + 3 if packed else numbers
    want = cftime.num2date(real, units, calendar)
    got = isobar("inspect", "times.nc")
    assert (got["first_time"], got["last_time"]) == (iso(want[0]), iso(want[-1])), (units, calendar, got["first_time"], iso(want[0]))
    assert got["pairs"] == STEPS - 1


def coordinates():
    lat, lon = np.linspace(70, 40, ROWS), np.linspace(0, 35, COLUMNS)
    if random.random() < 0.5:
        lat = lat[::-1]
    t = values()
    ds = dataset(t, lat, lon)
    kind = random.choice(["packed", "two", "cyclic", "beyond", "metres"])
    if kind == "packed":
        ds["lat"] = ("lat", np.round(lat * 100).astype("i2"), {"units": "degrees_north", "scale_factor": 0.01})
        ds["lon"] = ("lon", np.round(lon * 100).astype("i2"), {"units": "degrees_east", "scale_factor": 0.01, "_FillValue": np.int16(-1)})
        ds.to_netcdf(IN + "/c.nc")
        got = compare("c.nc", t[:, ::-1] if lat[0] < lat[-1] else t, kind)
        same(got["latitude"], [70, 40], kind, 1e-3), same(got["longitude"], [0, 35], kind, 1e-3)
    elif kind in ("two", "metres"):
        bend = np.random.uniform(-1, 1, (ROWS, COLUMNS)).cumsum(0) / 10
        lat2, lon2 = lat[:, None] + bend, lon[None, :] + bend
        ds = ds.drop_vars(["lat", "lon"]).rename(lat="y", lon="x")
        ds["latitude"] = (("y", "x"), lat2, {"units": "degrees_north"})
        ds["longitude"] = (("y", "x"), lon2, {"units": "degrees_east"})
        ds["t"].attrs["coordinates"] = "latitude longitude"
        if kind == "metres":
            for axis, n in (("y", ROWS), ("x", COLUMNS)):
                ds[axis] = (axis, np.arange(n) * 12000.0, {"units": "m", "standard_name": f"projection_{axis}_coordinate"})
        ds.to_netcdf(IN + "/c.nc")
        got = isobar("inspect", "c.nc")
        same(got["latitude"], [lat2.max(), lat2.min()], kind), same(got["longitude"], [lon2.min(), lon2.max()], kind)
        assert "'data.region'" in refused("inspect", "c.nc", "--region", "60,0,50,20")
    elif kind == "cyclic":
        ds = dataset(t, lat, np.linspace(0, 360, COLUMNS))
        ds.to_netcdf(IN + "/c.nc")
        got = isobar("inspect", "c.nc")
        assert got["width"] == COLUMNS - 1, got
    else:
        ds = dataset(t, lat + 50, lon)
        ds.to_netcdf(IN + "/c.nc")
        assert "no latitude is beyond 90" in refused("inspect", "c.nc")


def missing():
    kind = random.choice(["double", "packed", "unpacked range", "packed range"])
    nc = netcdf_file(IN + "/m.nc", "w")  # which keeps the types of attributes
    for name, n, units in (("time", STEPS, "hours since 2000-01-01"), ("lat", ROWS, "degrees_north"), ("lon", COLUMNS, "degrees_east")):
        nc.createDimension(name, n)
        axis = nc.createVariable(name, "f8", (name,))
        axis[:], axis.units = np.arange(n) * 3.0, units
    gone = np.random.random((STEPS, ROWS, COLUMNS)) < 0.2
    gone[0, 0, 0] = False
    real = values().astype("f8")
    v = nc.createVariable("t", "f4" if kind == "double" else "i2", ("time", "lat", "lon"))
    if kind == "double":
        fill = random.choice([1e20, -9999.9, 1.1e-3])
        v.missing_value = np.float64(fill)
        v[:] = np.where(gone, np.float32(fill), real)
        want = np.where(gone, np.nan, real)
    else:
        scale = random.choice([0.01, -0.01])
        v.scale_factor, v.add_offset = np.float64(scale), np.float64(285)
        stored = np.round((real - 285) / scale).astype("i2")
        low, high = random.choice([(260, 300), (255.5, np.inf), (-np.inf, 290)])
        if kind == "packed":
            v.missing_value = np.int16(-32000)
            stored[gone] = -32000
            out = gone
        elif kind == "unpacked range":
            v.valid_range = np.array([low, high], random.choice(["f4", "f8"]))
            out = (stored * scale + 285 < low - 1e-6) | (stored * scale + 285 > high + 1e-6)
        else:
            v.valid_range = np.array([-2000, 1500], "i2")
            out = (stored < -2000) | (stored > 1500)
        v[:] = stored
        want = np.where(out, np.nan, stored * scale + 285)
    nc.close()
    compare("m.nc", want[:, ::-1], kind)


def archives():
    version = random.choice([2, 3])
    dtype = random.choice(["f4", "f8", "f2", "i2", "i4"])
    data = values(-100, 100).astype(dtype)
    order = random.choice(["plain", "delta", "scaled", "bitround", "quantized", "lz4", "sums"])
    if order in ("bitround", "quantized", "scaled"):
        dtype, data = "f4", data.astype("f4")
    if order == "delta" and dtype[0] == "f":
        dtype, data = "i4", data.astype("i4")
    n = numcodecs
    filters = {"delta": [n.Delta(dtype="<" + dtype)], "scaled": [n.FixedScaleOffset(offset=5, scale=50, dtype="<f4", astype="<i2")],
               "bitround": [n.BitRound(10)], "quantized": [n.Quantize(3, dtype="<f4")]}.get(order, [])
    compressor = random.choice([n.Zlib(1), n.Zstd(2), n.GZip(1), n.Blosc("lz4"), n.Blosc("zstd", shuffle=2), n.LZ4()])
    if order == "lz4":
        compressor = n.LZ4()
    after = []
    if order == "sums":
        after = [random.choice([n.CRC32(), n.Adler32(), n.Fletcher32()])]
    if random.random() < 0.3:
        after.insert(0, n.Shuffle(np.dtype(dtype).itemsize if order != "scaled" else 2))
    path = IN + f"/a.v{version}.zarr"
    subprocess.run(["rm", "-rf", path])
    group = zarr.open_group(path, mode="w", zarr_format=version)
    chunks = (random.randint(1, STEPS), random.randint(1, ROWS), random.randint(1, COLUMNS))
    if version == 2:
        how = dict(filters=filters + after or None, compressors=compressor)
    else:
        import numcodecs.zarr3 as z3

        def third(c):
            of = c.get_config()
            kind = of.pop("id")
            return {"name": "numcodecs." + kind, "configuration": of}

        how = dict(filters=[third(c) for c in filters] or None, compressors=[third(c) for c in after + [compressor]])
    a = group.create_array("t", shape=data.shape, dtype=dtype, chunks=chunks, fill_value=0, **how,
                           **(dict(dimension_names=("time", "lat", "lon")) if version == 3 else {}))
    a[:] = data
    stamps = np.datetime64("2001-03-04T05", "h") + 6 * np.arange(STEPS)
    unit = random.choice(["h", "m", "s", "ms", "us", "ns"])
    axes = {"time": stamps.astype(f"M8[{unit}]"), "lat": np.linspace(60, 35, ROWS), "lon": np.linspace(0, 35, COLUMNS)}
    for name, x in axes.items():
        b = group.create_array(name, shape=x.shape, dtype=x.dtype, chunks=x.shape, **(dict(dimension_names=(name,)) if version == 3 else {}))
        b[:] = x
        if version == 2:
            b.attrs["_ARRAY_DIMENSIONS"] = [name]
    if version == 2:
        a.attrs["_ARRAY_DIMENSIONS"] = ["time", "lat", "lon"]
    got = compare(os.path.basename(path), np.asarray(a[:], "f8") if version == 3 else np.where(a[:] == 0, np.nan, np.asarray(a[:], "f8")), f"zarr {version} {dtype} {order} {compressor}")
    assert got["first_time"] == "2001-03-04T05:00Z", got["first_time"]


def written_again():
    path = IN + "/again.zip"
    if os.path.exists(path):
        os.remove(path)
    store = zarr.storage.ZipStore(path, mode="w")
    a, b = values(), values(0, 50)
    dataset(b).to_zarr(store, zarr_format=3, consolidated=False, encoding={"t": {"chunks": (STEPS, ROWS, COLUMNS)}})
    group = zarr.open_group(store, zarr_format=3)
    group["t"][:] = a
    store.close()
    compare("again.zip", a, "a chunk written again")


def hdf5():
    data = np.random.uniform(-50, 50, (STEPS, 3, ROWS, COLUMNS))
    dtype = random.choice(["f2", "f4", "f8", ">f4"])
    how = random.choice([{}, {"compression": "lzf"}, {"compression": "gzip", "shuffle": True, "fletcher32": True}, dict(hdf5plugin.Zstd()),
                         dict(hdf5plugin.LZ4()), dict(hdf5plugin.Blosc(cname="lz4")), dict(hdf5plugin.Blosc(cname="zstd", shuffle=2))])
    with h5py.File(IN + "/n.h5", "w") as f:
        f.create_dataset("fields", data=data.astype(dtype), chunks=(1, 2, 4, 5) if how else None, **how)
    seen = isobar("inspect", "n.h5")
    assert seen["layout"]["parallel"], seen["layout"]
    told = isobar("stats", "n.h5")
    same(told["mean"], data.astype(dtype).astype("f8").mean((0, 2, 3)), f"HDF5 {dtype} {how}", 1e-3)


def grib():
    if eccodes is None:
        return
    u, v = (np.random.uniform(9990, 10010, (3, ROWS * COLUMNS)) for _ in "uv")
    gone = np.random.random((3, ROWS * COLUMNS)) < 0.2
    gone[:, 0], u[:, 1] = False, 9999
    with open(IN + "/g.grib2", "wb") as f:
        for step in range(3):
            multi = eccodes.codes_grib_multi_new()
            for k, (name, x) in enumerate((("u", u), ("v", v))):
                h = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib2")
                for key, value in dict(Ni=COLUMNS, Nj=ROWS, latitudeOfFirstGridPointInDegrees=60, latitudeOfLastGridPointInDegrees=35,
                                       longitudeOfFirstGridPointInDegrees=0, longitudeOfLastGridPointInDegrees=35, iDirectionIncrementInDegrees=5,
                                       jDirectionIncrementInDegrees=5, dataDate=20200101, dataTime=600 * step, shortName=name, level=500, bitmapPresent=1,
                                       bitsPerValue=24, missingValue=1e30).items():
                    eccodes.codes_set(h, key, value)
                eccodes.codes_set_values(h, np.where(gone[step], 1e30, x[step]))
                eccodes.codes_grib_multi_append(h, 4 if k else 0, multi)
                eccodes.codes_release(h)
            eccodes.codes_grib_multi_write(multi, f)
            eccodes.codes_grib_multi_release(multi)
    for name, x in (("u", u), ("v", v)):
        compare("g.grib2", np.where(gone, np.nan, x).reshape(3, ROWS, COLUMNS), "GRIB " + name, name + "500")


def main():
    global ISOBAR, IN
    parser = argparse.ArgumentParser()
    parser.add_argument("--isobar", required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    a = parser.parse_args()
    ISOBAR = os.path.abspath(a.isobar)
    random.seed(a.seed), np.random.seed(a.seed)
    print("seed", a.seed)
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    with tempfile.TemporaryDirectory() as IN:
        for _ in range(a.rounds):
            for kind in (times, coordinates, missing, archives, written_again, hdf5, grib):
                kind()
    print(a.rounds, "rounds of 7 kinds: the same")


main()
