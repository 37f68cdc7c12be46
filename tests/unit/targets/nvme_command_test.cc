// NVMe commands, statuses and what a drive says of itself, at their edges.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "targets/nvme/command.h"
#include "targets/nvme/drive.h"
#include "targets/nvme/status.h"
#include "ublkd/units.h"

namespace ublkd {
namespace {

// --- commands ---------------------------------------------------------------------------------

TEST(NvmeCommand, A41_CountsAreZeroBasedAndBytesAreNot) {
  nvme_uring_cmd cmd{};
  fill_transfer(cmd, NvmeOpcode::read, {0, 1}, {0x1000, 4096}, NvmeDurable::no);
  EXPECT_EQ(cmd.opcode, 2);
  EXPECT_EQ(cmd.cdw10, 0u);
  EXPECT_EQ(cmd.cdw11, 0u);
  EXPECT_EQ(cmd.cdw12, 0u);
  EXPECT_EQ(cmd.addr, 0x1000u);
  EXPECT_EQ(cmd.data_len, 4096u);
  EXPECT_EQ(cmd.metadata_len, 0u);
}

TEST(NvmeCommand, TheLastBlockAndTheLargestTransfer) {
  nvme_uring_cmd cmd{};
  const std::uint64_t last = 0xffff'ffff'ffff'fffe;
  fill_transfer(cmd, NvmeOpcode::write, {last, nvme_blocks_max}, {0, 65536u * 512}, NvmeDurable::no);
  EXPECT_EQ(cmd.opcode, 1);
  EXPECT_EQ(cmd.cdw10, 0xffff'fffeu);
  EXPECT_EQ(cmd.cdw11, 0xffff'ffffu);
  EXPECT_EQ(cmd.cdw12, 0xffffu) << "16 bits, and no flag";
}

TEST(NvmeCommand, ABlockMoreThanTheLargestIsAFaultOfOurs) {
  nvme_uring_cmd cmd{};
  EXPECT_DEATH(fill_transfer(cmd, NvmeOpcode::read, {0, nvme_blocks_max + 1}, {0, 0}, NvmeDurable::no), "blocks");
  EXPECT_DEATH(fill_transfer(cmd, NvmeOpcode::read, {0, 0}, {0, 0}, NvmeDurable::no), "blocks");
}

TEST(NvmeCommand, FlagsLieBesideTheCount) {
  nvme_uring_cmd cmd{};
  fill_transfer(cmd, NvmeOpcode::write, {7, 8}, {0, 4096}, NvmeDurable::yes);
  EXPECT_EQ(cmd.cdw12, 7u | 1u << 30);
  fill_write_zeroes(cmd, {7, nvme_blocks_max}, NvmeDurable::yes, NvmeDeallocate::may);
  EXPECT_EQ(cmd.opcode, 8);
  EXPECT_EQ(cmd.cdw12, 0xffffu | 1u << 30 | 1u << 25);
  fill_write_zeroes(cmd, {7, 1}, NvmeDurable::no, NvmeDeallocate::no);
  EXPECT_EQ(cmd.cdw12, 0u);
}

TEST(NvmeCommand, ADiscardPointsToOneRange) {
  nvme_uring_cmd cmd{};
  fill_deallocate(cmd, 0xabc0);
  EXPECT_EQ(cmd.opcode, 9);
  EXPECT_EQ(cmd.addr, 0xabc0u);
  EXPECT_EQ(cmd.data_len, 16u);
  EXPECT_EQ(cmd.cdw10, 0u);
  EXPECT_EQ(cmd.cdw11, 4u);
}

// --- statuses ---------------------------------------------------------------------------------

TEST(NvmeStatus, A39_TypeAndCodeComeApart) {
  const NvmeStatus medium(0x281);
  EXPECT_TRUE(medium.from_drive());
  EXPECT_EQ(medium.type(), 2u);
  EXPECT_EQ(medium.code(), 0x81u);
  EXPECT_EQ(medium.error(), -ENODATA);
  EXPECT_NE(medium.text().find("0x281 (type 2, code 0x81): unrecovered read error"), std::string::npos);
  EXPECT_FALSE(medium.do_not_retry());
  const NvmeStatus range(0x4080);
  EXPECT_TRUE(range.do_not_retry());
  EXPECT_EQ(range.kind(), 0x80);
  EXPECT_EQ(range.error(), -EREMOTEIO);
  EXPECT_NE(range.text().find("do not retry"), std::string::npos);
  EXPECT_EQ(NvmeStatus(0x281 | 2 << 11).retry_delay(), 2u);
  EXPECT_EQ(NvmeStatus(0x281 | 2 << 11).kind(), 0x281);
}

TEST(NvmeStatus, BecomesTheErrnoThatTheKernelMakesOfIt) {
  EXPECT_EQ(NvmeStatus(0).error(), 0);
  EXPECT_EQ(NvmeStatus(0x4001).error(), -EOPNOTSUPP);
  EXPECT_EQ(NvmeStatus(0x4002).error(), -EOPNOTSUPP) << "the block layer then zeroes by writing";
  EXPECT_EQ(NvmeStatus(0x00b).error(), -EOPNOTSUPP);
  EXPECT_EQ(NvmeStatus(0x021).error(), -EREMOTEIO);
  EXPECT_EQ(NvmeStatus(0x182).error(), -ENODATA);
  EXPECT_EQ(NvmeStatus(0x286).error(), -ENODATA);
  EXPECT_EQ(NvmeStatus(0x081).error(), -ENOSPC);
  EXPECT_EQ(NvmeStatus(0x083).error(), -EBADE);
  EXPECT_EQ(NvmeStatus(0x282).error(), -EILSEQ);
  EXPECT_EQ(NvmeStatus(0x370).error(), -ENOLINK);
  EXPECT_EQ(NvmeStatus(0x3ff).error(), -ENOLINK) << "not a known one, but of the path";
  EXPECT_EQ(NvmeStatus(0x1c0).error(), -EIO);
  EXPECT_EQ(NvmeStatus(-ENODEV).error(), -ENODEV);
  for (const std::int32_t passing : {-EAGAIN, -ENOMEM, -EBUSY})
    EXPECT_EQ(NvmeStatus(passing).error(), -ENOLINK) << "the client would try it for ever";
  EXPECT_EQ(NvmeStatus(-EINTR).error(), -ENOLINK);
}

TEST(NvmeStatus, WhatIsDoneNext) {
  EXPECT_EQ(nvme_next(NvmeStatus(0x281), true), NvmeNext::again);
  EXPECT_EQ(nvme_next(NvmeStatus(0x4281), true), NvmeNext::fail);
  EXPECT_EQ(nvme_next(NvmeStatus(0x370), true), NvmeNext::wait);
  EXPECT_EQ(nvme_next(NvmeStatus(0x4370), true), NvmeNext::fail);
  for (const std::int32_t passing : {-EINTR, -EAGAIN, -ENOMEM})
    EXPECT_EQ(nvme_next(NvmeStatus(passing), true), NvmeNext::wait);
  EXPECT_EQ(nvme_next(NvmeStatus(-EINVAL), true), NvmeNext::fail);
  EXPECT_EQ(nvme_next(NvmeStatus(-EINVAL), false), NvmeNext::wait) << "a multipath node without a path";
  EXPECT_EQ(nvme_next(NvmeStatus(-ENODEV), false), NvmeNext::fail);
}

// --- what a drive says ------------------------------------------------------------------------

template <typename T>
void put(IdentifyPage& page, std::size_t at, T value) {
  std::memcpy(page.data() + at, &value, sizeof value);
}

TEST(NvmeIdentify, TheFormatIsFoundByAllSixBits) {
  IdentifyPage page{};
  put<std::uint64_t>(page, 0, 1000);
  put<std::uint8_t>(page, 26, 0x23);                       // format 0x13: bits 6:5 = 1, 3:0 = 3
  put<std::uint32_t>(page, 128 + 4 * 0x13, 12u << 16);     // 4096 bytes
  put<std::uint32_t>(page, 128 + 4 * 0x3, 9u << 16 | 8);   // what the low bits alone would find
  NvmeFormat f = parse_namespace(page);
  EXPECT_EQ(f.blocks, 1000u);
  EXPECT_EQ(f.block_bytes, 4096u);
  EXPECT_EQ(f.metadata_bytes, 0u);
  EXPECT_FALSE(f.zeroes_deallocate);
  put<std::uint8_t>(page, 26, 0x13);
  put<std::uint8_t>(page, 29, 1);
  put<std::uint8_t>(page, 33, 0x9);
  f = parse_namespace(page);
  EXPECT_EQ(f.block_bytes, 512u);
  EXPECT_EQ(f.metadata_bytes, 8u);
  EXPECT_TRUE(f.metadata_interleaved);
  EXPECT_EQ(f.protection_type, 1u);
  EXPECT_TRUE(f.zeroes_deallocate);
  put<std::uint8_t>(page, 33, 0x8);
  EXPECT_FALSE(parse_namespace(page).zeroes_deallocate) << "deallocated blocks need not read as zeroes";
}

TEST(NvmeIdentify, AbilitiesOfTheController) {
  IdentifyPage page{};
  put<std::uint16_t>(page, 520, 1u << 3);
  put<std::uint16_t>(page, 130, 5);
  const NvmeAbilities a = parse_controller(page);
  EXPECT_TRUE(a.write_zeroes);
  EXPECT_FALSE(a.dataset_management);
  EXPECT_EQ(a.retry_delay_ms[0], 0u);
  EXPECT_EQ(a.retry_delay_ms[1], 500u);
  put<std::uint32_t>(page, 4, 0x10000);
  put<std::uint64_t>(page, 8, std::uint64_t{1} << 33);
  EXPECT_EQ(parse_command_set(page).range_blocks_max, 0x10000u);
  EXPECT_EQ(parse_command_set(page).command_blocks_max, std::uint64_t{1} << 33);
}

std::string refusal(const NvmeFormat& format, const NvmeLimits& limits) {
  const auto r = check_format(format, limits, "/dev/ng0n1");
  return r ? "" : r.error().text();
}

TEST(NvmeFormat, A42_WhatIsNotServedIsNamed) {
  const NvmeLimits disk{.size_bytes = 1 << 20};
  const NvmeFormat plain{.blocks = 2048, .block_bytes = 512};
  EXPECT_EQ(refusal(plain, disk), "");
  NvmeFormat f = plain;
  f.metadata_bytes = 64;
  EXPECT_NE(refusal(f, disk).find("512 bytes of data and 64 of metadata, separate"), std::string::npos);
  f.metadata_interleaved = true;
  EXPECT_NE(refusal(f, disk).find("interleaved"), std::string::npos);
  f = plain;
  f.protection_type = 2;
  EXPECT_NE(refusal(f, disk).find("protection information of type 2"), std::string::npos);
  f = plain;
  f.block_bytes = 8192;
  EXPECT_NE(refusal(f, disk).find("8192"), std::string::npos);
  EXPECT_NE(refusal(plain, {.size_bytes = 1 << 20, .command_set = 2}).find("zoned"), std::string::npos);
  EXPECT_NE(refusal(plain, {}).find("no size"), std::string::npos);
}

Result<NvmeSpan> span(std::uint64_t offset, std::optional<std::uint64_t> length) {
  return choose_span({.path = "/dev/ng0n1", .offset_bytes = offset, .length_bytes = length}, 1 << 20, 4096);
}

TEST(NvmeSpan, LiesInsideTheNamespaceOnItsGrid) {
  EXPECT_EQ(span(0, std::nullopt)->length_bytes, 1u << 20);
  EXPECT_EQ(span(4096, std::nullopt)->length_bytes, (1u << 20) - 4096);
  EXPECT_EQ(span((1 << 20) - 4096, 4096)->begin_bytes, (1u << 20) - 4096);
  EXPECT_FALSE(span(512, std::nullopt));
  EXPECT_FALSE(span(1 << 20, std::nullopt));
  EXPECT_FALSE(span(0, 4096 + 512));
  EXPECT_FALSE(span(4096, 1 << 20));
  EXPECT_FALSE(span(4096, ~std::uint64_t{0} - 4095)) << "no overflow";
}

TEST(NvmeDrive, A46_ADiscardKeepsToTheDrivesLimitsAndUnit) {
  NvmeDrive drive;
  drive.format = {.block_bytes = 4096};
  EXPECT_EQ(discard_blocks_max(drive), 0xffffffffu);
  drive.discard = {.range_blocks_max = 1003};
  EXPECT_EQ(discard_blocks_max(drive), 1003u);
  drive.discard.command_blocks_max = 1001;
  EXPECT_EQ(discard_blocks_max(drive), 1001u);
  drive.limits.discard_granularity_bytes = 16 * 4096;
  EXPECT_EQ(discard_blocks_max(drive), 992u) << "the next command begins on what the drive deallocates";
  drive.limits.discard_granularity_bytes = 2048 * 4096;
  EXPECT_EQ(discard_blocks_max(drive), 1001u);
  drive.limits.discard_granularity_bytes = 512;
  EXPECT_EQ(discard_blocks_max(drive), 1001u);
}

TEST(NvmeDrive, ZeroesAreAsLongAsTheKernelWritesThemAndACommandCounts) {
  NvmeDrive drive;
  drive.format = {.block_bytes = 512};
  drive.limits.write_zeroes_bytes_max = 128 * 1024;
  EXPECT_EQ(zero_blocks_max(drive), 256u);
  drive.limits.write_zeroes_bytes_max = std::uint64_t{0xffffffff} * 512;
  EXPECT_EQ(zero_blocks_max(drive), nvme_blocks_max);
}

// A drive whose Write Zeroes is known to be broken has none in the kernel.
TEST(NvmeDrive, WhatTheKernelLeavesOutIsNotUsed) {
  const NvmeAbilities all{.write_zeroes = true, .dataset_management = true};
  EXPECT_FALSE(usable_abilities(all, {.discard_bytes_max = 4096}).write_zeroes);
  EXPECT_TRUE(usable_abilities(all, {.discard_bytes_max = 4096}).dataset_management);
  EXPECT_TRUE(usable_abilities(all, {.write_zeroes_bytes_max = 4096}).write_zeroes);
  EXPECT_FALSE(usable_abilities(all, {.write_zeroes_bytes_max = 4096}).dataset_management);
  EXPECT_FALSE(usable_abilities({}, {.write_zeroes_bytes_max = 4096}).write_zeroes) << "nor what the drive cannot";
}

TEST(NvmeGeometry, SaysWhatTheDriveTakes) {
  NvmeDrive drive;
  drive.format = {.blocks = 1 << 20, .block_bytes = 4096};
  drive.abilities = {.write_zeroes = true, .dataset_management = true};
  drive.limits = {.size_bytes = std::uint64_t{4} << 30,
                  .physical_block_bytes = 16384,
                  .io_min_bytes = 4096,
                  .io_opt_bytes = 131072,
                  .transfer_bytes_max = 130 * 1024,
                  .segments_max = 127,
                  .virt_boundary_mask = 4095,
                  .dma_alignment = 3,
                  .discard_granularity_bytes = 4096,
                  .write_zeroes_bytes_max = 128 * 1024,
                  .volatile_cache = true,
                  .tags = 31};
  const OpenContext context{.device_name = "a"};
  Geometry g = nvme_geometry(drive, {}, context, {8192, 1 << 20});
  EXPECT_EQ(g.size_bytes, 1u << 20);
  EXPECT_EQ(g.logical_block_bytes, 4096u);
  EXPECT_EQ(g.physical_block_bytes, 8192u) << "no larger than the begin allows";
  EXPECT_EQ(g.io_bytes_max, 128u * 1024) << "whole pages";
  EXPECT_EQ(g.virt_boundary_mask, 4095u);
  EXPECT_EQ(g.segments_max, 127u);
  EXPECT_EQ(g.dma_alignment, 3u);
  EXPECT_TRUE(g.volatile_cache && g.fua && g.zero_copy);
  EXPECT_EQ(g.discard_bytes_max % 4096, 0u);
  EXPECT_EQ(g.discard_bytes_max, (std::uint64_t{1} << 32) - 4096);
  EXPECT_EQ(g.write_zeroes_bytes_max, 128u * 1024) << "one command";
  EXPECT_EQ(g.depth, 31u);
  EXPECT_FALSE(nvme_geometry(drive, {.poll = true}, context, {0, 4096}).polled) << "the driver has no queues for it";
  drive.limits.polled = true;
  g = nvme_geometry(drive, {.poll = true}, context, {0, 4096});
  EXPECT_TRUE(g.polled);
  EXPECT_FALSE(g.zero_copy);
  drive.limits.volatile_cache = false;
  drive.abilities = {};
  g = nvme_geometry(drive, {}, context, {0, 4096});
  EXPECT_FALSE(g.volatile_cache || g.fua);
  EXPECT_EQ(g.discard_bytes_max + g.write_zeroes_bytes_max, 0u);
}

}  // namespace
}  // namespace ublkd
