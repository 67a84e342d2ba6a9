// A later step of a roll-out reads the previous step's patches shifted by one time, with that step's
// prediction as the newest; this file emits the shift and its gradients.
//
//   rows of patches     [rows][variable][time, oldest first][p p], static variables last
//   a prediction        [patches][p p][field], a variable's levels side by side
#include "model/nets/aurora/encoder.h"

namespace isobar::nets::aurora {

Encoder::Rows Encoder::surface_rows() const {
  return {B_ * L_, n_.surface_fields(), surface_.in};
}
Encoder::Rows Encoder::upper_rows() const {
  return {B_ * levels_ * L_, n_.upper_variables(), upper_.in};
}

void Encoder::strided(const std::string& path, const std::array<int64_t, 3>& extent, int64_t run,
                      const plan::View& from, int64_t first, const std::array<int64_t, 3>& by,
                      const plan::View& to, int64_t to_first, const std::array<int64_t, 3>& to_by) {
  b_.emit<plan::OpKind::copy>(path, {.run = run, .extent = extent, .from = by, .to = to_by},
                              {from.slice(first, from.count - first)},
                              {to.slice(to_first, to.count - to_first)});
}

// Copies each time to the one before it (`back`: after it), in an order that is safe if both are one buffer.
void Encoder::shift(const std::string& path, const Rows& r, const plan::View& from, const plan::View& to,
                    bool back) {
  const int64_t T = n_.history, area = n_.patch_size * n_.patch_size;
  for (int64_t t = 0; t + 1 < T; ++t) {
    const int64_t here = (back ? t : t + 1) * area, there = (back ? t + 1 : t) * area;
    strided(path + std::to_string(t), {r.count, r.variables, 1}, area, from, here, {r.width, T * area, 0}, to,
            there, {r.width, T * area, 0});
  }
}

// ---- forward ----

void Encoder::roll_surface() {
  const int64_t T = n_.history, area = n_.patch_size * n_.patch_size, C = n_.out_channels;
  const Rows r = surface_rows();
  const plan::View older = surface_patches_.of_before(e_.roll.slots_back);
  shift("embed/surface/roll", r, older, surface_patches_, false);
  const int64_t fixed = n_.static_fields() * T * area, first = r.width - fixed;
  if (fixed > 0 && e_.roll.slots_back > 0)
    strided("embed/surface/roll/static", {r.count, 1, 1}, fixed, older, first, {r.width, 0, 0},
            surface_patches_, first, {r.width, 0, 0});
  strided("embed/surface/roll/newest", {r.count, r.variables, area}, 1, before_, 0, {C * area, 1, C},
          surface_patches_, (T - 1) * area, {r.width, T * area, 1});
}

void Encoder::roll_upper() {
  const int64_t T = n_.history, area = n_.patch_size * n_.patch_size, C = n_.out_channels;
  const Rows r = upper_rows();
  const int64_t V = r.variables, one = V * area;  // columns of one time
  shift("embed/upper/roll", r, upper_patches_.of_before(e_.roll.slots_back), upper_patches_, false);
  const plan::View by_patch = b_.scratch("embed.upper.newest", e_.act, r.count * one);
  for (int64_t v = 0; v < V; ++v)
    strided("embed/upper/roll/" + n_.atmos_vars[v], {B_ * L_, levels_, area}, 1, before_,
            n_.surface_fields() + v * levels_, {C * area, 1, C}, by_patch, v * area, {levels_ * one, one, 1});
  const plan::View by_level = b_.scratch("embed.upper.newest.by_level", e_.act, r.count * one);
  by_patch_.back("embed/upper/roll/by_level", {}, by_patch, by_level, one);
  strided("embed/upper/roll/newest", {r.count, V, 1}, area, by_level, 0, {one, area, 0}, upper_patches_,
          (T - 1) * area, {r.width, T * area, 0});
}

// ---- backward ----

// The gradient of the patches that this step read: from this step's product, and from the next step for the
// times that both read. Gradients of older times are passed on.
plan::View Encoder::patches_gradient(const std::string& path, const Rows& r, const Linear& l,
                                     const plan::View& dy) {
  const bool carried = n_.history > 1;
  const std::string name = (&l == &surface_ ? "embed.surface" : "embed.upper") + std::string(".dpatches");
  const int64_t count = r.count * r.width;
  const plan::View dx = carried ? b_.saved(name, DType::f32, count) : b_.scratch(name, e_.act, count);
  layers_.linear_backward_input(path, l, dy, dx, r.count, carried && !e_.roll.last);
  if (!carried || e_.roll.second) return dx;
  const plan::View before = dx.of_before(e_.roll.slots_back);
  b_.emit<plan::OpKind::zero>(path + "/unroll/zero", {.count = count}, {}, {before});
  shift(path + "/unroll", r, dx, before, true);
  return dx;
}

plan::View Encoder::as_predicted(const std::string& path, const plan::View& dpatches) {
  if (b_.plan.buffers[dpatches.buffer].dtype == e_.act) return dpatches;
  const plan::View cast = b_.scratch("embed.dpatches.act", e_.act, dpatches.count);
  b_.emit<plan::OpKind::cast>(path + "/unroll/cast", {.count = cast.count}, {dpatches}, {cast});
  return cast;
}

void Encoder::surface_back(const plan::View& dy) {
  const std::string path = "embed/surface";
  const int64_t T = n_.history, area = n_.patch_size * n_.patch_size, C = n_.out_channels;
  const Rows r = surface_rows();
  const plan::View dx = as_predicted(path, patches_gradient(path, r, surface_, dy));
  strided(path + "/unroll/newest", {r.count, r.variables, area}, 1, dx, (T - 1) * area,
          {r.width, T * area, 1}, before_gradient_, 0, {C * area, 1, C});
}

void Encoder::upper_back(const plan::View& dy) {
  const std::string path = "embed/upper";
  const int64_t T = n_.history, area = n_.patch_size * n_.patch_size, C = n_.out_channels;
  const Rows r = upper_rows();
  const int64_t V = r.variables, one = V * area;
  const plan::View dx = as_predicted(path, patches_gradient(path, r, upper_, dy));
  const plan::View by_level = b_.scratch("embed.upper.dnewest.by_level", e_.act, r.count * one);
  strided(path + "/unroll/newest", {r.count, V, 1}, area, dx, (T - 1) * area, {r.width, T * area, 0},
          by_level, 0, {one, area, 0});
  const plan::View by_patch = b_.scratch("embed.upper.dnewest", e_.act, r.count * one);
  by_patch_.gather(path + "/unroll/by_patch", by_level, by_patch, one);
  for (int64_t v = 0; v < V; ++v)
    strided(path + "/unroll/" + n_.atmos_vars[v], {B_ * L_, levels_, area}, 1, by_patch, v * area,
            {levels_ * one, one, 1}, before_gradient_, n_.surface_fields() + v * levels_, {C * area, 1, C});
}

}  // namespace isobar::nets::aurora
