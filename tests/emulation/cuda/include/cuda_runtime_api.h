/// The part of CUDA's runtime that the backend calls, for emulated devices on the host.
///
/// A stream does its work as late as possible: when it is waited for. Device memory is host memory, but only work of
/// the device's streams may access it; the two sides of a copy must match its kind. Undefined behaviour of a real
/// device ends the process with a message. Not thread-safe.
#pragma once

#include <cstddef>

#include "emulation/cuda/include/vector_types.h"

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
#define CUDART_VERSION 13000

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorInvalidPtx = 218,
  cudaErrorUnsupportedPtxVersion = 222,
};
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
/// Returns the last error of all calls and clears it.
cudaError_t cudaGetLastError();

struct cudaDeviceProp {
  char name[256];
  int major;
  int minor;
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16, cudaDevAttrMaxSharedMemoryPerBlockOptin = 97 };
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);

using cudaStream_t = struct EmulatedStream*;
using cudaEvent_t = struct EmulatedEvent*;
constexpr unsigned cudaStreamNonBlocking = 1;
constexpr unsigned cudaEventDisableTiming = 2;
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

struct cudaKernelNodeParams {
  void* func;
  dim3 gridDim;
  dim3 blockDim;
  unsigned sharedMemBytes;
  void** kernelParams;
  void** extra;
};
struct cudaFuncAttributes {
  int ptxVersion;
};
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel);
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments);

/// A graph is a sequence of kernels here: each but the first has one edge, from the one before it.
using cudaGraph_t = struct EmulatedGraph*;
using cudaGraphExec_t = struct EmulatedExecutable*;
using cudaGraphNode_t = struct EmulatedNode*;
cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                   size_t before_count, const cudaKernelNodeParams* params);
enum cudaGraphDependencyType { cudaGraphDependencyTypeDefault = 0, cudaGraphDependencyTypeProgrammatic = 1 };
constexpr unsigned char cudaGraphKernelNodePortProgrammatic = 1;
struct cudaGraphEdgeData {
  unsigned char from_port;
  unsigned char to_port;
  unsigned char type;
};
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     const cudaGraphEdgeData* edges, size_t count);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
/// The memory is filled with 0xff.
cudaError_t cudaMalloc(void** data, size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaMallocHost(void** data, size_t bytes);
cudaError_t cudaFreeHost(void* data);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
// NOLINTEND(readability-identifier-naming)
