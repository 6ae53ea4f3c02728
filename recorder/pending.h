// A write or an external input whose digest a device has not handed over yet, as part of the chunk
// that waits for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "recorder/device.h"
#include "src/event/program.h"

namespace goldentrace {

struct PendingDigest {
  std::unique_ptr<DeviceWork> work;
  bool external = false;    // of the chunk's externals, not of its writes
  std::uint32_t place = 0;  // there
  std::size_t item_size = 1;

  // Waits for the device, and puts what it found into the chunk.
  Hash128 fill_in(ProgramChunk& chunk) {
    constexpr std::chrono::microseconds kBetweenLooks(50);
    while (!work->done()) std::this_thread::sleep_for(kBetweenLooks);
    const Digest digest = work->digest();
    if (external) {
      chunk.externals[place].hash = digest.hash;
      return digest.hash;
    }
    Write& write = chunk.writes[place];
    if ((write.flags & kWriteHashed) != 0) write.hash = digest.hash;
    if ((write.flags & kWriteStats) != 0) chunk.stats[write.stats_index] = digest.stats;
    if ((write.flags & kWriteSketch) != 0) chunk.sketches[write.sketch_index] = digest.sketch;
    return digest.hash;
  }

  [[nodiscard]] bool keeps_value(const ProgramChunk& chunk) const {
    return external || (chunk.writes[place].flags & kWriteValue) != 0;
  }
};

}  // namespace goldentrace
