# CUDA is optional. Sets ISOBAR_WITH_CUDA and creates the target isobar_cuda: the toolkit's headers and the
# static runtime, which reaches the driver only when called. cuBLASLt, cuDNN, NCCL and CUPTI are opened at run
# time (model/backend/cuda/runtime/library.h), so a CUDA build starts, and trains on the CPU, without any of
# them.
set(ISOBAR_CUDA AUTO CACHE STRING "AUTO: where nvcc and the libraries' headers are found; ON: required; OFF")
set_property(CACHE ISOBAR_CUDA PROPERTY STRINGS AUTO ON OFF)
set(ISOBAR_WITH_CUDA FALSE)
# Thread sanitizer does not see the synchronisation of CUDA's libraries.
if(ISOBAR_CUDA STREQUAL OFF OR ISOBAR_SANITIZE STREQUAL "thread")
  return()
endif()

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(_nvcc nvcc PATHS /usr/local/cuda/bin)
  if(_nvcc)
    set(CMAKE_CUDA_COMPILER ${_nvcc})
  endif()
  unset(_nvcc CACHE)
endif()
# 80: A100; 90: Hopper; 100: Blackwell
set(CMAKE_CUDA_ARCHITECTURES "80;90;100" CACHE STRING "GPUs to compile for")
include(CheckLanguage)
check_language(CUDA)
set(_missing "")
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  find_package(CUDAToolkit QUIET)
  find_path(CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES x86_64-linux-gnu)
  find_path(CUBLASLT_INCLUDE cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_path(NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_path(CUPTI_INCLUDE cupti.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI/include)
  foreach(_found CUDAToolkit_FOUND CUDNN_INCLUDE CUBLASLT_INCLUDE NCCL_INCLUDE CUPTI_INCLUDE)
    if(NOT ${_found})
      string(APPEND _missing " ${_found}")
    endif()
  endforeach()
else()
  set(_missing " nvcc")
endif()
if(_missing)
  if(ISOBAR_CUDA STREQUAL ON)
    message(FATAL_ERROR "ISOBAR_CUDA is ON, and this is missing:${_missing}")
  endif()
  message(STATUS "CUDA: not built, missing:${_missing}")
  return()
endif()

set(ISOBAR_WITH_CUDA TRUE)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # unknown to CMake 3.25 for nvcc
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc supports it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_FLAGS_RELEASE "-O1 -DNDEBUG")  # host code only starts kernels; device code is always
                                              # optimised
set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -Xptxas=-warn-spills -Xcompiler=-Wall -diag-suppress=177")
set(ISOBAR_CUDA_FLAGS_OF_ANY_GPU "${CMAKE_CUDA_FLAGS}")
message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
# Preprocesses kernels once, for the oldest GPU, and generates machine code for each GPU from that; CMake
# alone would compile the source once for each. Other values (90a, native) are left to CMake.
if(CMAKE_CUDA_ARCHITECTURES MATCHES "^[0-9]+(;[0-9]+)+$")
  list(SORT CMAKE_CUDA_ARCHITECTURES COMPARE NATURAL)
  list(GET CMAKE_CUDA_ARCHITECTURES 0 _oldest)
  list(JOIN CMAKE_CUDA_ARCHITECTURES ",sm_" _gpus)
  string(APPEND CMAKE_CUDA_FLAGS " --generate-code=arch=compute_${_oldest},code=[compute_${_oldest},sm_${_gpus}]")
  set(CMAKE_CUDA_ARCHITECTURES OFF)
endif()
add_library(isobar_cuda INTERFACE)
target_include_directories(isobar_cuda SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE} ${CUBLASLT_INCLUDE}
                           ${NCCL_INCLUDE} ${CUPTI_INCLUDE})
target_link_libraries(isobar_cuda INTERFACE CUDA::cudart_static ${CMAKE_DL_LIBS})
target_compile_definitions(isobar_cuda INTERFACE ISOBAR_WITH_CUDA)
# Directory of the libraries opened at run time: searched after the system's.
set(ISOBAR_CUDA_LIBRARY_DIR ${CUDAToolkit_LIBRARY_DIR})
target_compile_definitions(isobar_cuda INTERFACE ISOBAR_CUDA_LIBRARY_DIR="${ISOBAR_CUDA_LIBRARY_DIR}")
# cuDNN's C++ frontend: headers only, needed for its fused attention. Without it attention runs in our own
# kernels.
find_path(CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS ${CMAKE_SOURCE_DIR}/.venv-cudnn/include
          PATH_SUFFIXES cudnn-frontend)
if(CUDNN_FRONTEND_INCLUDE)
  message(STATUS "cuDNN frontend: ${CUDNN_FRONTEND_INCLUDE}")
  # It only describes graphs, so it does without its JSON support and without optimisation.
  set_source_files_properties(model/backend/cuda/libraries/attention_cudnn.cpp PROPERTIES
    COMPILE_DEFINITIONS "ISOBAR_CUDNN_FRONTEND;NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING;CUDNN_FRONTEND_SKIP_JSON_LIB"
    COMPILE_OPTIONS "-isystem;${CUDNN_FRONTEND_INCLUDE};$<$<CONFIG:Release>:-O0>;-U_FORTIFY_SOURCE")
else()
  message(STATUS "cuDNN frontend: not found, so attention on GPUs runs in our own kernels "
                 "(pip install --target .venv-cudnn --no-deps nvidia-cudnn-frontend)")
endif()
