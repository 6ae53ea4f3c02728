#include "src/digest/digest.h"

#include <algorithm>
#include <array>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "src/digest/leaf_tree.h"
#include "src/digest/superblock.h"

namespace goldentrace {
namespace {

// What one task looks at.
constexpr std::size_t kPieceSuperblocks = 4;
constexpr std::size_t kPiece = kPieceSuperblocks * kSuperblock;  // elements
// Tensors of this many bytes are worth more threads. What several threads found is put together
// once a window, so that memory stays bounded.
constexpr std::size_t kParallelBytes = 1u << 19;
constexpr std::size_t kWindowPieces = 512;

// Denormal numbers are numbers, whatever mode the model runs in.
class ExactArithmetic {
 public:
#if defined(__SSE__)
  ExactArithmetic() : before_(_mm_getcsr()) {
    if (before_ != kDefault) _mm_setcsr(kDefault);
  }
  ~ExactArithmetic() {
    if (before_ != kDefault) _mm_setcsr(before_);
  }
  ExactArithmetic(const ExactArithmetic&) = delete;
  ExactArithmetic& operator=(const ExactArithmetic&) = delete;

 private:
  static constexpr unsigned kDefault = 0x1f80;
  unsigned before_;
#endif
};

// What was found in one piece.
struct Piece {
  std::array<std::uint64_t, kPiece * 16 / kHashBlock> leaves;
  std::array<SuperblockSums, kPieceSuperblocks> sums;
};

class TensorDigest {
 public:
  TensorDigest(const TensorView& tensor, const DigestOptions& options)
      : tensor_(tensor),
        size_(item_size(tensor.dtype)),
        count_(element_count(tensor)),
        dense_(is_dense(tensor)),
        sketch_(options.sketch && is_real_float(tensor.dtype)),
        sums_(sketch_ || (options.stats && is_real_float(tensor.dtype))) {}

  [[nodiscard]] std::size_t pieces() const { return (count_ + kPiece - 1) / kPiece; }
  [[nodiscard]] std::size_t bytes() const { return count_ * size_; }

  // Any thread.
  void look(std::size_t number, Piece& piece) const {
    const ExactArithmetic exact;
    const std::size_t begin = number * kPiece;
    const std::size_t count = elements(number);
    const std::byte* data = tensor_.data + begin * size_;
    if (!dense_) {
      thread_local std::vector<std::byte> gathered;
      gathered.resize(kPiece * 16);
      gather(tensor_, begin, count, gathered.data());
      data = gathered.data();
    }
    if (sums_) {
      add_superblocks(tensor_.dtype, data, count, number * kPieceSuperblocks, sketch_, piece.sums,
                      piece.leaves.data());
    } else {
      hash_leaves({data, count * size_}, piece.leaves.data());
    }
  }

  // One piece after the other.
  void take(std::size_t number, const Piece& piece) {
    const std::size_t count = elements(number);
    tree_.add(std::span(piece.leaves).first(leaf_count(count * size_)));
    if (!sums_) return;
    const std::size_t superblocks = (count + kSuperblock - 1) / kSuperblock;
    for (std::size_t i = 0; i < superblocks; ++i) take(piece.sums[i]);
  }

  Digest finish() {
    Digest digest;
    digest.hash = tree_.finish(bytes());
    digest.stats = stats_;
    if (sketch_) {
      std::ranges::transform(sketch_sums_, digest.sketch.begin(),
                             [](double sum) { return static_cast<float>(sum); });
    }
    return digest;
  }

 private:
  [[nodiscard]] std::size_t elements(std::size_t number) const {
    return std::min(kPiece, count_ - number * kPiece);
  }

  void take(const SuperblockSums& sums) {
    const Stats& next = sums.stats;
    const auto extraordinary = [](const Stats& stats) {
      return stats.nan + stats.positive_infinity + stats.negative_infinity + stats.sentinel;
    };
    if (extraordinary(next) < next.count) {
      const bool first = extraordinary(stats_) == stats_.count;  // no ordinary element yet
      stats_.min = first ? next.min : std::min(stats_.min, next.min);
      stats_.max = first ? next.max : std::max(stats_.max, next.max);
      stats_.sum += next.sum;
      stats_.sum_squares += next.sum_squares;
    }
    stats_.count += next.count;
    stats_.nan += next.nan;
    stats_.positive_infinity += next.positive_infinity;
    stats_.negative_infinity += next.negative_infinity;
    stats_.sentinel += next.sentinel;
    stats_.zero += next.zero;
    if (!sketch_) return;
    for (std::size_t i = 0; i < kSketchSums; ++i) sketch_sums_[i] += sums.sketch[i];
  }

  const TensorView& tensor_;
  const std::size_t size_;
  const std::size_t count_;
  const bool dense_;
  const bool sketch_;
  const bool sums_;
  LeafTree tree_;
  Stats stats_;
  std::array<double, kSketchSums> sketch_sums_{};
};

// A window's pieces are looked at in any order and taken in theirs.
void digest_windows(TensorDigest& digest, RunTasks run) {
  struct Window {
    const TensorDigest& digest;
    std::size_t begin;
    Piece* found;
  };
  thread_local std::vector<Piece> found;
  found.resize(std::min(kWindowPieces, digest.pieces()));
  for (std::size_t begin = 0; begin < digest.pieces(); begin += kWindowPieces) {
    const std::size_t pieces = std::min(kWindowPieces, digest.pieces() - begin);
    Window window{digest, begin, found.data()};
    run(
        pieces,
        [](std::size_t i, void* context) {
          const auto& w = *static_cast<Window*>(context);
          w.digest.look(w.begin + i, w.found[i]);
        },
        &window);
    for (std::size_t i = 0; i < pieces; ++i) digest.take(begin + i, found[i]);
  }
}

}  // namespace

Digest digest_tensor(const TensorView& tensor, const DigestOptions& options) {
  const ExactArithmetic exact;
  TensorDigest digest(tensor, options);
  if (options.run != nullptr && digest.bytes() >= kParallelBytes) {
    digest_windows(digest, options.run);
  } else {
    Piece piece;
    for (std::size_t i = 0; i < digest.pieces(); ++i) {
      digest.look(i, piece);
      digest.take(i, piece);
    }
  }
  return digest.finish();
}

std::vector<std::byte> dense_bytes(const TensorView& tensor) {
  std::vector<std::byte> bytes(element_count(tensor) * item_size(tensor.dtype));
  write_dense(tensor, bytes);
  return bytes;
}

void write_dense(const TensorView& tensor, std::span<std::byte> out) {
  gather(tensor, 0, element_count(tensor), out.data());
}

}  // namespace goldentrace
