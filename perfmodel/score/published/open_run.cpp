#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>

#include "model/base/text/printed.h"
#include "perfmodel/score/published/published_row.h"

namespace isobar::perf {
namespace {

constexpr size_t kMostCandidates = 4000;

using Cells = std::map<std::string, std::string>;

/// Nets that tables identify by name; the first whose words are all in the row's name.
struct KnownNet {
  std::vector<const char*> words;
  double layers, hidden, ffn, heads, kv_heads, seq, vocab;
};
const std::array<KnownNet, 9> kNets{{
    {{"llama", "3", "405b"}, 126, 16384, 53248, 128, 8, 8192, 128256},
    {{"llama", "3", "70b"}, 80, 8192, 28672, 64, 8, 8192, 128256},
    {{"llama", "3", "8b"}, 32, 4096, 14336, 32, 8, 8192, 128256},
    {{"llama", "2", "7b"}, 32, 4096, 11008, 32, 32, 4096, 32000},
    {{"llama", "13b"}, 40, 5120, 13824, 40, 40, 2048, 32000},
    {{"gpt3", "20b"}, 44, 6144, 24576, 48, 48, 2048, 51200},       // NVIDIA/NeMo, conf/training/gpt3
    {{"nemotron", "8b"}, 32, 4096, 16384, 32, 32, 4096, 256000},   // NVIDIA/NeMo, recipes/nemotron3_8b
    {{"nemotron", "22b"}, 40, 6144, 24576, 48, 48, 4096, 256000},  // ... nemotron3_22b
    {{"smollm", "1.7b"}, 24, 2048, 8192, 32, 32, 2048, 49152},
}};

std::string cell_of(double v) {
  return printed("%.10g", v);
}

/// A row being filled: its own cells, and the filled ones.
class Filled {
 public:
  explicit Filled(const CsvRow& row) : row_(&row) {}
  bool open(const char* column) const { return !cells_.contains(column) && row_->text(column).empty(); }
  double number(const char* column) const {
    const auto own = cells_.find(column);
    return own == cells_.end() ? row_->number(column, 0) : std::atof(own->second.c_str());
  }
  void fill(const char* column, double v) {
    if (v > 0 && open(column)) cells_[column] = cell_of(v);
  }
  Filled with(const char* column, double v) const {
    Filled f = *this;
    f.cells_[column] = cell_of(v);
    return f;
  }
  CsvRow row() const { return row_->with(cells_); }

 private:
  const CsvRow* row_;
  Cells cells_;
};

void fill_by_name(Filled& f, const CsvRow& row) {
  std::string name = row.text("model_name");
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const KnownNet& n : kNets) {
    if (!std::all_of(n.words.begin(), n.words.end(),
                     [&](const char* w) { return name.find(w) != std::string::npos; }))
      continue;
    for (const auto& [column, v] : {std::pair{"layers", n.layers},
                                    {"hidden", n.hidden},
                                    {"ffn_hidden", n.ffn},
                                    {"heads", n.heads},
                                    {"kv_heads", n.kv_heads},
                                    {"seq_len", n.seq},
                                    {"vocab", n.vocab}})
      f.fill(column, v);
    return;
  }
}

/// Number of layers for the table's parameters at its width: 4 h^2 of attention and the feed-forward part.
void fill_layers(Filled& f, const CsvRow& row) {
  const double h = f.number("hidden"), all = 1e9 * f.number("params_b");
  if (!f.open("layers") || !(h > 0) || !(all > 0)) return;
  const double ffn = f.open("ffn_hidden") ? 4 * h : f.number("ffn_hidden");
  const double matrices = row.text("arch") == "llama" ? 3 : 2;
  const double vocab = f.open("vocab") ? 50304 : f.number("vocab");
  f.fill("layers", std::max(1.0, std::round((all - vocab * h) / (4 * h * h + matrices * h * ffn))));
}

std::vector<double> powers(double from, double to) {
  std::vector<double> out;
  for (double v = from; v <= to; v *= 2) out.push_back(v);
  return out;
}

/// Candidate values of a column, given the columns before it.
std::vector<double> values_of(const std::string& column, const Filled& f) {
  const double gpus = f.number("gpus"), hidden = f.number("hidden");
  std::vector<double> out;
  if (column == "heads") {
    for (double d = 64; d <= 256; ++d)
      if (std::fmod(hidden, d) == 0 && std::fmod(hidden / d, 8) == 0) out.push_back(hidden / d);
  } else if (column == "seq_len") {
    out = {2048, 4096, 8192};
  } else if (column == "tp") {
    for (double t : powers(1, std::min(gpus, 16.0)))
      if (std::fmod(gpus, t) == 0 && std::fmod(f.number("heads"), t) == 0) out.push_back(t);
  } else if (column == "pp") {
    const double places = gpus / f.number("tp"), layers = f.number("layers");
    for (double p = 1; p <= std::min(places, layers); ++p)
      if (std::fmod(places, p) == 0 && std::fmod(layers, p) == 0) out.push_back(p);
  } else if (column == "micro_batch") {
    out = powers(1, 128);
  } else if (column == "global_batch") {
    const double dp = f.open("dp") ? gpus / (f.number("tp") * f.number("pp") * std::max(1.0, f.number("cp")))
                                   : f.number("dp");
    for (double m : powers(1, 1024)) {
      const double tokens = dp * f.number("micro_batch") * m * f.number("seq_len");
      if (tokens >= 65536 && tokens <= 33554432) out.push_back(dp * f.number("micro_batch") * m);
    }
  }
  return out;
}

}  // namespace

OpenRun open_run(const CsvRow& row, const std::string& table, const Surroundings* own) {
  OpenRun out;
  Filled known(row);
  for (const char* column :
       {"layers", "hidden", "heads", "seq_len", "tp", "pp", "micro_batch", "global_batch"})
    if (known.open(column)) out.missing.emplace_back(column);
  if (out.missing.empty()) return out;
  fill_by_name(known, row);
  fill_layers(known, row);
  if (known.open("hidden") || known.open("layers"))
    throw Refused("no net: neither its sizes nor a known name");
  std::vector<Filled> all = {known};
  for (const char* column : {"heads", "seq_len", "tp", "pp", "micro_batch", "global_batch"}) {
    std::vector<Filled> next;
    for (const Filled& f : all) {
      if (!f.open(column)) {
        next.push_back(f);
        continue;
      }
      for (const double v : values_of(column, f)) next.push_back(f.with(column, v));
    }
    all = std::move(next);
    if (all.size() > kMostCandidates) throw Refused("leaves too much open");
  }
  std::string why = "leaves open what nothing legal fills";
  for (const Filled& f : all) try {
      PublishedRun r = run_from(f.row(), table, own);
      const double micro_batches = r.micro_batches();
      if (std::abs(micro_batches - std::round(micro_batches)) < 1e-6) out.candidates.push_back(std::move(r));
    } catch (const UnknownChip&) {
      throw;
    } catch (const Refused& reason) {
      why = reason.what();
    }
  if (out.candidates.empty()) throw Refused(why);
  return out;
}

}  // namespace isobar::perf
