// Products of every form that attention on Hopper uses, one by one: where its results are wrong, these say
// which instruction is.
#pragma once
#include <cuda_runtime_api.h>

namespace isobar::cuda {

constexpr int kProductForms = 5;
const char* name_of_product(int form);
/// x, y: bf16 [rows, columns], up to 64 x 128, columns divisible by 8, taken as 64 x 128 with zeros beyond;
/// z: f32 [kProductForms][64][128]
///   0  z [64, 64] = x y'                 both by columns
///   1  z [64, 128] = x[:, :64] y         x by columns, y by rows
///   2  z [64, 128] = x[:, :64]' y        both by rows
///   3  as 1, with x in registers
///   4  z [64, 128] = (x y') y            of the first form's results, rounded, through shared memory
void hopper_products(const void* x, const void* y, int rows, int columns, float* z, cudaStream_t stream);

}  // namespace isobar::cuda
