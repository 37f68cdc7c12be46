#include "targets/nvme/status.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ublkd {

namespace {

constexpr std::uint32_t type_path = 3;

struct Known {
  std::uint32_t kind;  // type << 8 | code
  std::int32_t error;
  const char* name;
};

constexpr std::array known{
    Known{0x001, -EOPNOTSUPP, "invalid command opcode"},
    Known{0x002, -EOPNOTSUPP, "invalid field in command"},
    Known{0x004, -EIO, "data transfer error"},
    Known{0x005, -EIO, "aborted due to power loss"},
    Known{0x006, -EIO, "internal error"},
    Known{0x007, -EIO, "command abort requested"},
    Known{0x008, -EIO, "aborted due to submission queue deletion"},
    Known{0x00b, -EOPNOTSUPP, "invalid namespace or format"},
    Known{0x00c, -EIO, "command sequence error"},
    Known{0x013, -EIO, "PRP offset invalid"},
    Known{0x015, -EIO, "operation denied"},
    Known{0x01d, -EIO, "sanitize in progress"},
    Known{0x020, -EIO, "namespace is write protected"},
    Known{0x021, -EREMOTEIO, "command interrupted"},
    Known{0x022, -EIO, "transient transport error"},
    Known{0x080, -EREMOTEIO, "LBA out of range"},
    Known{0x081, -ENOSPC, "capacity exceeded"},
    Known{0x082, -EREMOTEIO, "namespace not ready"},
    Known{0x083, -EBADE, "reservation conflict"},
    Known{0x084, -EIO, "format in progress"},
    Known{0x180, -EOPNOTSUPP, "conflicting attributes"},
    Known{0x181, -EILSEQ, "invalid protection information"},
    Known{0x182, -ENODATA, "attempted write to read only range"},
    Known{0x183, -EIO, "command size limit exceeded"},
    Known{0x280, -ENODATA, "write fault"},
    Known{0x281, -ENODATA, "unrecovered read error"},
    Known{0x282, -EILSEQ, "end-to-end guard check error"},
    Known{0x283, -EILSEQ, "end-to-end application tag check error"},
    Known{0x284, -EILSEQ, "end-to-end reference tag check error"},
    Known{0x285, -ENODATA, "compare failure"},
    Known{0x286, -ENODATA, "access denied"},
    Known{0x287, -ENODATA, "deallocated or unwritten logical block"},
    Known{0x300, -ENOLINK, "internal path error"},
    Known{0x301, -ENOLINK, "asymmetric access persistent loss"},
    Known{0x302, -ENOLINK, "asymmetric access inaccessible"},
    Known{0x303, -ENOLINK, "asymmetric access transition"},
    Known{0x360, -ENOLINK, "controller pathing error"},
    Known{0x370, -ENOLINK, "host pathing error"},
    Known{0x371, -ENOLINK, "command aborted by host"},
};

const Known* find(std::int32_t kind) {
  for (const Known& k : known)
    if (static_cast<std::int32_t>(k.kind) == kind) return &k;
  return nullptr;
}

// The way to the drive, not the drive: a command that was cancelled, or could not be sent.
bool is_interruption(std::int32_t error) {
  return error == -EINTR || error == -EAGAIN || error == -ECANCELED || error == -ENOMEM || error == -EBUSY;
}

}  // namespace

std::int32_t NvmeStatus::error() const {
  if (result_ == 0) return 0;
  // EAGAIN and the like would have the client try for ever.
  if (result_ < 0) return is_interruption(result_) ? -ENOLINK : result_;
  if (const Known* k = find(kind())) return k->error;
  return type() == type_path ? -ENOLINK : -EIO;
}

std::string NvmeStatus::text() const {
  if (!from_drive()) return fmt::format("error {} ({})", result_, std::strerror(-result_));
  const Known* k = find(kind());
  return fmt::format("status {:#x} (type {}, code {:#x}): {}{}", kind(), type(), code(),
                     k == nullptr ? "not a known one" : k->name, do_not_retry() ? ", do not retry" : "");
}

NvmeNext nvme_next(NvmeStatus status, bool single_path) {
  if (status.from_drive()) {
    if (status.do_not_retry()) return NvmeNext::fail;
    return status.type() == type_path ? NvmeNext::wait : NvmeNext::again;
  }
  const std::int32_t error = status.kind();
  if (is_interruption(error) || (error == -EINVAL && !single_path)) return NvmeNext::wait;
  return NvmeNext::fail;
}

}  // namespace ublkd
