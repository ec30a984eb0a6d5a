#include "plugins/ucx/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "collectives/plugin_abi.h"

namespace muonshard::ucx {
namespace {

using plugins::Outcome;

Outcome Failed(const std::string& what) {
  const int error = errno;
  return {.code = error == ENOMEM ? MUONSHARD_E_MEMORY : MUONSHARD_E_SYSTEM,
          .text = what + ": " + std::strerror(error)};
}

}  // namespace

Outcome SharedMemory::Make(uint64_t bytes,
                           std::unique_ptr<SharedMemory>* made) {
  std::unique_ptr<SharedMemory> memory(new SharedMemory(bytes));
  const std::string what = std::to_string(bytes) + " bytes of shared memory";
  memory->descriptor_ =
      memfd_create("muonshard", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory->descriptor_ < 0 ||
      ftruncate(memory->descriptor_, static_cast<off_t>(bytes)) != 0 ||
      fcntl(memory->descriptor_, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return Failed(what);
  }
  if (Outcome bad = memory->Map(memory->descriptor_); !bad.ok()) return bad;
  *made = std::move(memory);
  return {};
}

Outcome SharedMemory::Open(int64_t process, int descriptor, uint64_t bytes,
                           std::unique_ptr<SharedMemory>* opened) {
  const std::string path =
      "/proc/" + std::to_string(process) + "/fd/" + std::to_string(descriptor);
  const int own = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (own < 0) return Failed(path);
  std::unique_ptr<SharedMemory> memory(new SharedMemory(bytes));
  struct stat found = {};
  Outcome outcome;
  if (fstat(own, &found) != 0) {
    outcome = Failed(path);
  } else if (static_cast<uint64_t>(found.st_size) != bytes) {
    outcome = {.code = MUONSHARD_E_SYSTEM,
               .text = path + " has " + std::to_string(found.st_size) +
                       " bytes, want " + std::to_string(bytes)};
  } else {
    outcome = memory->Map(own);
  }
  close(own);
  if (outcome.ok()) *opened = std::move(memory);
  return outcome;
}

Outcome SharedMemory::Map(int descriptor) {
  void* const mapped =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    return Failed("a mapping of " + std::to_string(bytes_) + " shared bytes");
  }
  data_ = static_cast<std::byte*>(mapped);
  return {};
}

SharedMemory::~SharedMemory() {
  Hide();
  if (data_ != nullptr) munmap(data_, bytes_);
}

void SharedMemory::Hide() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

}  // namespace muonshard::ucx
