// What the recorder asks about tensors, and how it gets at their bytes. Device memory is copied to
// the host.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <vector>

#include "src/digest/digest.h"

namespace goldentrace {

// Memory that a plain program step can read and write: no fake, functional, batched, sparse, nested
// or meta tensor, and none whose memory was given back, wholly or in part.
bool has_memory(const at::Tensor& tensor);
// Quantized and other rare dtypes are not in the format.
bool has_known_dtype(const at::Tensor& tensor);
// Every byte of the tensor's storage is an element of the tensor.
bool covers_storage(const at::Tensor& tensor);
// Only for a tensor that has_memory().
c10::StorageImpl* storage_of(const at::Tensor& tensor);

// `tensor` itself when its memory is the host's; else a copy with the same logical elements.
// RecordFunction must be disabled on this thread.
at::Tensor host_tensor(const at::Tensor& tensor);
// `host` must outlive the view.
TensorView view_of(const at::Tensor& host);
// All bytes of a storage, as a tensor of bytes that shares its memory. RecordFunction must be
// disabled on this thread, or the recording paused.
at::Tensor whole_storage(c10::StorageImpl* storage);

// Every defined tensor in a value, through lists and tuples.
template <typename Visit>
void each_tensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) each_tensor(item, visit);
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) each_tensor(item, visit);
  }
}

}  // namespace goldentrace
