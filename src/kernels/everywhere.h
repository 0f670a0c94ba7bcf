/// For functions that run on host and GPU alike.
#pragma once

#if defined(__CUDACC__)
#define CAIRN_EVERYWHERE __host__ __device__
#else
#define CAIRN_EVERYWHERE
#endif
