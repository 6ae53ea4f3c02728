#include "replayer/execute/verify.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ScalarOps.h>
#include <ATen/Version.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "replayer/execute/memory.h"
#include "replayer/execute/weights.h"
#include "src/base/machine.h"
#include "src/digest/digest.h"
#include "src/format/trace_reader.h"

namespace goldentrace {
namespace {

constexpr std::size_t kMaxFindings = 20;
// In the order of at::Float32MatmulPrecision.
constexpr const char* kPrecisionNames[] = {"highest", "high", "medium"};

// A call of this program that can't be executed here.
struct CannotRun {
  std::string why;
};

void apply_ambient(const Ambient& ambient) {
  c10::set_default_dtype(
      caffe2::TypeMeta::fromScalarType(static_cast<c10::ScalarType>(ambient.default_dtype)));
  at::globalContext().setDeterministicAlgorithms(ambient.deterministic, /*warn_only=*/false);
  at::globalContext().setFloat32MatmulPrecision(ambient.matmul_precision);
  at::autocast::set_autocast_enabled(at::kCPU, ambient.autocast);
  if (ambient.autocast) {
    at::autocast::set_autocast_dtype(at::kCPU,
                                     static_cast<c10::ScalarType>(ambient.autocast_dtype));
  }
  if (ambient.threads > 0 && at::get_num_threads() != static_cast<int>(ambient.threads)) {
    at::set_num_threads(static_cast<int>(ambient.threads));
  }
}

// Puts this thread and process back as they were: verification may be one step of a longer program.
class KeepAmbient {
 public:
  KeepAmbient() = default;
  ~KeepAmbient() {
    c10::set_default_dtype(dtype_);
    at::globalContext().setDeterministicAlgorithms(deterministic_, warn_only_);
    at::globalContext().setFloat32MatmulPrecision(kPrecisionNames[precision_ % 3]);
    at::autocast::set_autocast_dtype(at::kCPU, autocast_dtype_);
    at::autocast::set_autocast_enabled(at::kCPU, autocast_);
    if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
  }
  KeepAmbient(const KeepAmbient&) = delete;
  KeepAmbient& operator=(const KeepAmbient&) = delete;

 private:
  caffe2::TypeMeta dtype_ = c10::get_default_dtype();
  bool deterministic_ = at::globalContext().deterministicAlgorithms();
  bool warn_only_ = at::globalContext().deterministicAlgorithmsWarnOnly();
  std::size_t precision_ = static_cast<std::size_t>(at::globalContext().float32MatmulPrecision());
  at::ScalarType autocast_dtype_ = at::autocast::get_autocast_dtype(at::kCPU);
  bool autocast_ = at::autocast::is_autocast_enabled(at::kCPU);
  int threads_ = at::get_num_threads();
};

std::vector<std::string> compare_environment(const Header& header) {
  std::vector<std::pair<std::string, std::string>> here = {
      {"torch", TORCH_VERSION},
      {"cpu_capability", at::get_cpu_capability()},
      {"mkldnn", at::globalContext().userEnabledMkldnn() ? "on" : "off"},
  };
  for (auto& entry : machine_environment()) here.push_back(std::move(entry));
  std::vector<std::string> differences;
  for (const auto& [key, value] : here) {
    std::string recorded = header.environment_value(key);
    // The wheel's build tag ("+cu130") is not part of the version that LibTorch states.
    if (key == "torch") recorded = recorded.substr(0, recorded.find('+'));
    if (!recorded.empty() && recorded != value) {
      differences.push_back(key + " " + recorded + " when recorded, " + value + " here");
    }
  }
  return differences;
}

// Number of the last call that touches each storage, so that memory is given back after it.
class Lifetimes {
 public:
  static Result<Lifetimes> read(const TraceReader& trace) {
    Lifetimes lifetimes;
    std::vector<std::uint64_t> last;
    ProgramReader program(trace);
    while (true) {
      const auto more = program.next();
      if (!more.ok()) return more.status();
      if (!*more) break;
      const Dictionary& dictionary = program.dictionary();
      last.resize(dictionary.storages(), 0);
      const ProgramChunk& chunk = program.chunk();
      for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
        const Call& call = chunk.calls[i];
        for (std::size_t n = call.first_node; n < call.end_node; ++n) {
          if (chunk.nodes[n].kind != NodeKind::kTensor) continue;
          const auto tensor = static_cast<std::uint32_t>(chunk.nodes[n].value);
          last[dictionary.tensor(tensor).storage] = chunk.base.calls + i;
        }
        for (std::size_t w = 0; w < call.writes; ++w) {
          const std::uint32_t tensor = chunk.writes[call.first_write + w].tensor;
          last[dictionary.tensor(tensor).storage] = chunk.base.calls + i;
        }
      }
    }
    for (std::uint32_t storage = 0; storage < last.size(); ++storage) {
      lifetimes.ends_.emplace_back(last[storage], storage);
    }
    std::sort(lifetimes.ends_.begin(), lifetimes.ends_.end());
    return lifetimes;
  }

  void release_after(std::uint64_t call, Memory& memory) {
    for (; next_ < ends_.size() && ends_[next_].first <= call; ++next_) {
      memory.release(ends_[next_].second);
    }
  }

 private:
  std::vector<std::pair<std::uint64_t, std::uint32_t>> ends_;
  std::size_t next_ = 0;
};

class Executor {
 public:
  Executor(const TraceReader& trace, VerifyReport& report)
      : trace_(trace), report_(report), program_(trace), memory_(program_.dictionary()) {}

  Status run(const Checkpoint& checkpoint) {
    auto lifetimes = Lifetimes::read(trace_);
    if (!lifetimes.ok()) return lifetimes.status();
    const auto parameters = trace_.parameters();
    if (!parameters.ok()) return parameters.status();
    report_.parameters = parameters->size();

    const KeepAmbient ambient;
    const c10::AutoGradMode no_grad(false);
    bool loaded = parameters->empty();
    while (true) {
      const auto more = program_.next();
      if (!more.ok()) return more.status();
      if (!*more) break;
      if (!loaded) {  // the first chunk defines every parameter
        GOLDENTRACE_RETURN_IF_ERROR(load_parameters(trace_, *parameters, checkpoint,
                                                    program_.dictionary(), memory_,
                                                    report_.wrong_parameters));
        if (!report_.wrong_parameters.empty()) return {};
        loaded = true;
      }
      GOLDENTRACE_RETURN_IF_ERROR(run_chunk(*lifetimes));
    }
    return {};
  }

 private:
  Status run_chunk(Lifetimes& lifetimes) {
    const ProgramChunk& chunk = program_.chunk();
    std::size_t next_external = 0;
    for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
      const std::uint64_t number = chunk.base.calls + i;
      for (;
           next_external < chunk.externals.size() && chunk.externals[next_external].call <= number;
           ++next_external) {
        GOLDENTRACE_RETURN_IF_ERROR(put_external(chunk.externals[next_external]));
      }
      GOLDENTRACE_RETURN_IF_ERROR(run_call(chunk, chunk.calls[i], number));
      lifetimes.release_after(number, memory_);
    }
    return {};
  }

  Status put_external(const External& external) {
    const auto bytes = trace_.value(external.hash);
    if (!bytes.ok()) return bytes.status();
    if (bytes->size() != program_.dictionary().storage(external.storage).bytes) {
      return {Code::kCorrupt, "an external input has another size than its storage"};
    }
    memory_.fill(external.storage, *bytes);
    ++report_.externals;
    if (external.kind == ExternalKind::kHole) ++report_.holes;
    return {};
  }

  Status run_call(const ProgramChunk& chunk, const Call& call, std::uint64_t number) {
    ++report_.calls;
    current_ = {number,
                program_.dictionary().describe_op(call.op),
                program_.dictionary().scope(call.scope),
                call.step,
                {}};
    if ((call.flags & kCallFailed) != 0) {
      ++report_.threw_when_recorded;
      return {};
    }
    std::vector<c10::IValue> stack;
    try {
      apply_ambient_of(call);
      execute(chunk, call, stack);
    } catch (const CannotRun& cannot) {
      lose(chunk, call, cannot.why);
      return {};
    } catch (const std::exception& error) {
      const std::string what = error.what();
      lose(chunk, call, "throws: " + what.substr(0, what.find('\n')));
      return {};
    }
    ++report_.executed;
    return compare(chunk, call, stack);
  }

  // Call `call` could not run: memory that it should have made is not to be had by later ones.
  void lose(const ProgramChunk& chunk, const Call& call, std::string why) {
    ++report_.not_executable;
    find(std::move(why));
    for (std::size_t node = call.first_result; node < call.end_node; ++node) {
      if (chunk.nodes[node].kind != NodeKind::kTensor) continue;
      const auto tensor = static_cast<std::uint32_t>(chunk.nodes[node].value);
      lost_.insert(program_.dictionary().tensor(tensor).storage);
    }
  }

  void apply_ambient_of(const Call& call) {
    if (ambient_known_ && ambient_ == call.ambient) return;
    apply_ambient(program_.dictionary().ambient(call.ambient));
    ambient_ = call.ambient;
    ambient_known_ = true;
  }

  const c10::OperatorHandle& find_op(std::uint32_t id) {
    const auto known = ops_.find(id);
    if (known != ops_.end()) return known->second;
    const Operator& op = program_.dictionary().op(id);
    const auto handle = c10::Dispatcher::singleton().findSchema({op.name, op.overload});
    if (!handle) throw CannotRun{"this LibTorch has no such operator"};
    return ops_.emplace(id, *handle).first->second;
  }

  void execute(const ProgramChunk& chunk, const Call& call, std::vector<c10::IValue>& stack) {
    if ((call.flags & kCallNotExecutable) != 0) throw CannotRun{"an argument was not stored"};
    const c10::OperatorHandle& op = find_op(call.op);
    const auto& arguments = op.schema().arguments();
    if (arguments.size() != call.arguments) {
      throw CannotRun{"takes " + std::to_string(arguments.size()) + " arguments here, had " +
                      std::to_string(call.arguments) + " when recorded"};
    }
    std::size_t node = call.first_node;
    for (const c10::Argument& argument : arguments) {
      stack.push_back(decode(chunk.nodes, node, *argument.type()));
    }
    op.callBoxed(&stack);
  }

  // The value of the node at `node`, which moves past it. `type` is what the schema expects there.
  c10::IValue decode(const std::vector<Node>& nodes, std::size_t& node, const c10::Type& type) {
    const Dictionary& dictionary = program_.dictionary();
    const Node& at = nodes[node++];
    const auto id = static_cast<std::uint32_t>(at.value);
    switch (at.kind) {
      case NodeKind::kNone:
        return {};
      case NodeKind::kTensor:
        make_unread(dictionary.tensor(id).storage);
        return memory_.tensor(id);
      case NodeKind::kUndefinedTensor:
        return at::Tensor();
      case NodeKind::kInt:
        return at.value;
      case NodeKind::kDouble:
        return std::bit_cast<double>(at.value);
      case NodeKind::kBool:
        return at.value != 0;
      case NodeKind::kString:
        return dictionary.string(id);
      case NodeKind::kDevice:
        return c10::Device(dictionary.string(id));
      case NodeKind::kComplex: {
        const double real = std::bit_cast<double>(nodes[node].value);
        const double imaginary = std::bit_cast<double>(nodes[node + 1].value);
        node += 2;
        return c10::complex<double>(real, imaginary);
      }
      case NodeKind::kGenerator:
        return {};  // random results are taken from the trace
      case NodeKind::kWrappedInt:
        return wrapped(at.value);
      case NodeKind::kWrappedDouble:
        return wrapped(std::bit_cast<double>(at.value));
      case NodeKind::kWrappedBool:
        return wrapped(at.value != 0);
      case NodeKind::kList:
        return decode_list(nodes, node, at.value, type);
      default:
        throw CannotRun{"an argument of a kind that can't be made again"};
    }
  }

  // Memory from before the recording has no bytes in the trace as long as calls only look at it or
  // overwrite it: any bytes will do.
  void make_unread(std::uint32_t storage) {
    if (memory_.has(storage)) return;
    if (lost_.contains(storage)) {
      throw CannotRun{"an input was never made (a call before it could not run)"};
    }
    memory_.fill(storage, {});
  }

  static at::Tensor wrapped(const at::Scalar& number) {
    at::Tensor tensor = c10::scalar_to_tensor(number);
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
  }

  c10::IValue decode_list(const std::vector<Node>& nodes, std::size_t& node, std::int64_t count,
                          const c10::Type& type) {
    const c10::Type* list_type = &type;
    if (const auto* optional = type.castRaw<c10::OptionalType>()) {
      list_type = optional->getElementType().get();
    }
    const auto* typed = list_type->castRaw<c10::ListType>();
    if (typed == nullptr) throw CannotRun{"a list where the schema has none"};
    const c10::TypePtr element = typed->getElementType();
    c10::impl::GenericList list(element);
    for (std::int64_t i = 0; i < count; ++i) list.push_back(decode(nodes, node, *element));
    return list;
  }

  // ---- comparing what came out with what was recorded -------------------------------------------

  Status compare(const ProgramChunk& chunk, const Call& call,
                 const std::vector<c10::IValue>& stack) {
    std::size_t node = call.first_result;
    for (const c10::IValue& result : stack) {
      if (node >= call.end_node) break;
      compare_result(chunk, call, node, result);
    }
    for (std::size_t w = 0; w < call.writes; ++w) {
      GOLDENTRACE_RETURN_IF_ERROR(compare_write(call, chunk.writes[call.first_write + w]));
    }
    return {};
  }

  void compare_result(const ProgramChunk& chunk, const Call& call, std::size_t& node,
                      const c10::IValue& result) {
    const Node& want = chunk.nodes[node++];
    if (want.kind == NodeKind::kList) {
      const bool same =
          result.isList() && result.toListRef().size() == static_cast<std::size_t>(want.value);
      if (!same) find("returns a list of another length");
      for (std::int64_t i = 0; i < want.value; ++i) {
        const std::size_t at = node;
        if (same) {
          compare_result(chunk, call, node, result.toListRef()[static_cast<std::size_t>(i)]);
        } else {
          node = skip_node(chunk.nodes, at);
        }
      }
      return;
    }
    if (want.kind == NodeKind::kTensor) {
      compare_tensor(chunk, call, static_cast<std::uint32_t>(want.value), result);
      return;
    }
    if (want.kind == NodeKind::kInt || want.kind == NodeKind::kDouble ||
        want.kind == NodeKind::kBool) {
      ++report_.scalars;
      const bool same =
          (result.isInt() && result.toInt() == want.value) ||
          (result.isBool() && result.toBool() == (want.value != 0)) ||
          (result.isDouble() && std::bit_cast<std::int64_t>(result.toDouble()) == want.value);
      if (same) {
        ++report_.scalars_equal;
      } else {
        find("returns another number");
      }
      return;
    }
    if (want.kind == NodeKind::kComplex) node += 2;
  }

  void compare_tensor(const ProgramChunk& chunk, const Call& call, std::uint32_t id,
                      const c10::IValue& result) {
    const Dictionary& dictionary = program_.dictionary();
    const Tensor& want = dictionary.tensor(id);
    if (!result.isTensor() || !result.toTensor().defined() || !result.toTensor().has_storage()) {
      ++report_.views;
      find(dictionary.describe_tensor(id) + ": no such result here");
      return;
    }
    const at::Tensor& got = result.toTensor();
    bool written = false;
    for (std::size_t w = 0; w < call.writes; ++w) {
      written |=
          dictionary.tensor(chunk.writes[call.first_write + w].tensor).storage == want.storage;
    }
    const Geometry& geometry = dictionary.geometry(want.geometry);
    const bool same_shape = got.sizes() == c10::IntArrayRef(geometry.sizes) &&
                            got.strides() == c10::IntArrayRef(geometry.strides) &&
                            got.storage_offset() == want.offset &&
                            static_cast<DType>(got.scalar_type()) == want.dtype;
    bool same_memory = true;
    if (memory_.has(want.storage)) {
      same_memory = memory_.is(want.storage, got.storage());
    } else {
      memory_.bind(want.storage, got.storage());
    }
    if (!written) {
      ++report_.views;
      if (same_shape && same_memory) ++report_.views_equal;
    }
    if (!same_shape) {
      find(dictionary.describe_tensor(id) + ": another shape, layout or dtype here");
    } else if (!same_memory) {
      find(dictionary.describe_tensor(id) + ": shared memory when recorded, is a copy here");
    }
  }

  Status compare_write(const Call& call, const Write& write) {
    const Dictionary& dictionary = program_.dictionary();
    if ((write.flags & kWriteUndefined) != 0) {
      ++report_.undefined;
      return {};
    }
    if ((write.flags & kWriteHashed) == 0) return {};
    const bool random = (call.flags & kCallRandom) != 0;
    if (!random) ++report_.hashes;
    if (!memory_.has(dictionary.tensor(write.tensor).storage)) {
      find(dictionary.describe_tensor(write.tensor) + ": was not made");
      return {};
    }
    at::Tensor got;
    try {
      got = memory_.tensor(write.tensor);
    } catch (const std::exception&) {
      find(dictionary.describe_tensor(write.tensor) + ": does not fit in the memory made here");
      return {};
    }
    if (random) {
      const auto bytes = trace_.value(write.hash);
      if (!bytes.ok()) return bytes.status();
      ++report_.random;
      return put_value(*bytes, got);
    }
    const TensorView view{static_cast<const std::byte*>(got.const_data_ptr()),
                          static_cast<DType>(got.scalar_type()),
                          {got.sizes().data(), got.sizes().size()},
                          {got.strides().data(), got.strides().size()}};
    if (digest_tensor(view, false).hash == write.hash) {
      ++report_.hashes_equal;
    } else {
      find(dictionary.describe_tensor(write.tensor) + ": bytes differ");
    }
    return {};
  }

  static Status put_value(const Bytes& bytes, const at::Tensor& target) {
    const at::Tensor dense = at::empty(target.sizes(), target.options());
    if (dense.nbytes() != bytes.size()) {
      return {Code::kCorrupt, "a stored random result has another size than its tensor"};
    }
    if (!bytes.empty()) std::memcpy(dense.mutable_data_ptr(), bytes.data(), bytes.size());
    target.copy_(dense);
    return {};
  }

  void find(std::string what) {
    if (report_.findings.size() >= kMaxFindings) return;
    VerifyFinding finding = current_;
    finding.what = std::move(what);
    report_.findings.push_back(std::move(finding));
  }

  const TraceReader& trace_;
  VerifyReport& report_;
  ProgramReader program_;
  Memory memory_;
  std::unordered_map<std::uint32_t, c10::OperatorHandle> ops_;
  std::unordered_set<std::uint32_t>
      lost_;  // storages that calls which could not run would have made
  VerifyFinding current_;
  std::uint32_t ambient_ = 0;
  bool ambient_known_ = false;
};

}  // namespace

Result<VerifyReport> verify(const VerifyOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  auto trace = TraceReader::open(options.trace);
  if (!trace.ok()) return trace.status();
  GOLDENTRACE_RETURN_IF_ERROR((*trace)->check_bytes());
  const auto checkpoint = Checkpoint::open(options.weights);
  if (!checkpoint.ok()) return checkpoint.status();

  VerifyReport report;
  report.trace = options.trace;
  report.environment = compare_environment((*trace)->header());
  Status status;
  try {
    status = Executor(**trace, report).run(*checkpoint);
  } catch (const std::exception& error) {  // sizes in the file that no memory can hold
    const std::string what = error.what();
    status = Status(Code::kCorrupt, options.trace + ": " + what.substr(0, what.find('\n')));
  }
  if (!status.ok()) {
    const bool named = status.message().starts_with(options.trace);
    return Status(status.code(),
                  named ? status.message() : options.weights + ": " + status.message());
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return report;
}

}  // namespace goldentrace
