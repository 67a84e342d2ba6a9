// Marks functions that kernels call, too: compiled for host and device by nvcc, plain C++ elsewhere.
#pragma once

#ifdef __CUDACC__
#define ISOBAR_HOST_DEVICE __host__ __device__
#else
#define ISOBAR_HOST_DEVICE
#endif
