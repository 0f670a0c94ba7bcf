/// For functions that run on host and GPU alike.
#pragma once

#if defined(__CUDACC__)
#define CAIRN_HOST_DEVICE __host__ __device__
#else
#define CAIRN_HOST_DEVICE
#endif
