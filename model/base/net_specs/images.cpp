#include "model/base/net_specs/images.h"

namespace isobar {

void Images::add_image_rows(KeyRows& to, const ImageHelp& help) {
  to.insert(to.end(), {{"net.img_height", img_height, help.heights, help.height},
                       {"net.img_width", img_width, kNetSize, "Columns of the grid (longitudes)."},
                       {"net.in_channels", in_channels, kNetSize, help.in_channels},
                       {"net.out_channels", out_channels, kNetSize, "Channels predicted."}});
}

}  // namespace isobar
