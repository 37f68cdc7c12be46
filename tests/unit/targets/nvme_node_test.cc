// Which namespace a path means, on a sysfs of the test's own.
#include "targets/nvme/node.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/temp_dir.h"

namespace ublkd {
namespace {

namespace fs = std::filesystem;

constexpr unsigned block_major = 259, char_major = 242;

class NvmeNodeTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(sys() + "/" + path).parent_path());
    std::ofstream(sys() + "/" + path) << text << "\n";
  }
  [[nodiscard]] std::string sys() const { return dir_.path("sys"); }

  // A device of the kernel: its folder, and where it is found by its number.
  void device(const std::string& folder, const char* kind, unsigned major_number, unsigned minor_number) {
    const std::string number = std::to_string(major_number) + ":" + std::to_string(minor_number);
    write(folder + "/dev", number);
    fs::create_directories(sys() + "/dev/" + kind);
    fs::create_directory_symlink(sys() + "/" + folder, sys() + "/dev/" + kind + "/" + number);
  }
  void namespace_at(const std::string& folder, const std::string& digits, unsigned minor_number) {
    device(folder + "/nvme" + digits, "block", block_major, minor_number);
    device(folder + "/ng" + digits, "char", char_major, minor_number);
  }
  Result<NvmeNode> find(NodeKind kind, unsigned minor_number) {
    return nvme_node_of("/dev/x", kind, makedev(kind == NodeKind::block ? block_major : char_major, minor_number),
                        roots());
  }
  [[nodiscard]] NvmeRoots roots() const { return {sys(), "/dev"}; }

  TempDir dir_;
};

TEST_F(NvmeNodeTest, BothNodesMeanTheNamespace) {
  namespace_at("devices/pci/nvme/nvme0", "0n1", 1);
  const auto by_block = find(NodeKind::block, 1), by_generic = find(NodeKind::character, 1);
  ASSERT_TRUE(by_block && by_generic);
  EXPECT_EQ(by_block->path, "/dev/ng0n1");
  EXPECT_EQ(by_generic->path, "/dev/x") << "as it was given";
  for (const auto* node : {&*by_block, &*by_generic}) {
    EXPECT_EQ(node->block_name, "nvme0n1");
    EXPECT_EQ(node->generic_dev, makedev(char_major, 1));
    EXPECT_EQ(node->block_dev, makedev(block_major, 1));
    EXPECT_FALSE(node->multipath);
    EXPECT_TRUE(nvme_node_is_there(*node));
  }
}

TEST_F(NvmeNodeTest, A40_OtherNodesAreRefusedByWhatTheyAre) {
  namespace_at("devices/pci/nvme/nvme0", "0n1", 1);
  device("devices/pci/nvme/nvme0", "char", char_major, 7);
  device("devices/pci/nvme/nvme0/nvme0n1/nvme0n1p2", "block", block_major, 8);
  write("devices/pci/nvme/nvme0/nvme0n1/nvme0n1p2/partition", "2");
  write("devices/pci/nvme/nvme0/nvme0n1/nvme0n1p2/start", "2048");
  write("devices/pci/nvme/nvme0/nvme0n1/nvme0n1p2/size", "8");
  device("devices/virtual/block/loop0", "block", block_major, 9);
  const auto text = [&](NodeKind kind, unsigned number) {
    const auto node = find(kind, number);
    return node ? std::string("found") : node.error().text();
  };
  EXPECT_NE(text(NodeKind::character, 7).find("controller"), std::string::npos);
  EXPECT_NE(text(NodeKind::block, 8).find("path /dev/nvme0n1 with offset 1048576 and length 4096"), std::string::npos)
      << text(NodeKind::block, 8);
  EXPECT_NE(text(NodeKind::block, 9).find("loop0"), std::string::npos);
  EXPECT_NE(text(NodeKind::character, 99).find("no NVMe namespace"), std::string::npos);
}

TEST_F(NvmeNodeTest, AKernelWithoutTheGenericNode) {
  device("devices/pci/nvme/nvme0/nvme0n1", "block", block_major, 1);
  const auto node = find(NodeKind::block, 1);
  ASSERT_FALSE(node);
  EXPECT_EQ(node.error().kind, ErrorKind::unsupported);
}

TEST_F(NvmeNodeTest, AMultipathNodeHasTheQueuesOfItsPaths) {
  const std::string head = "devices/virtual/nvme-subsystem/nvme-subsys3";
  namespace_at(head, "3n2", 1);
  write("block/nvme3c5n2/mq/0/nr_tags", "127");
  write("block/nvme3c5n2/mq/1/nr_tags", "63");
  write("block/nvme3c5n20/mq/0/nr_tags", "1");
  write("block/nvme33c5n2/mq/0/nr_tags", "1");
  const auto node = find(NodeKind::block, 1);
  ASSERT_TRUE(node);
  EXPECT_TRUE(node->multipath);
  const NvmeLimits l = nvme_limits(*node, roots());
  EXPECT_EQ(l.queues, 2u);
  EXPECT_EQ(l.tags, 63u);
}

TEST_F(NvmeNodeTest, LimitsComeFromTheBlockDevice) {
  namespace_at("devices/pci/nvme/nvme0", "0n1", 1);
  const std::string disk = "devices/pci/nvme/nvme0/nvme0n1/";
  write(disk + "size", "2048");
  write(disk + "queue/logical_block_size", "512");
  write(disk + "queue/max_hw_sectors_kb", "32");
  write(disk + "queue/max_segments", "9");
  write(disk + "queue/max_segment_size", "4294967295");
  write(disk + "queue/virt_boundary_mask", "4095");
  write(disk + "queue/dma_alignment", "3");
  write(disk + "queue/write_cache", "write back");
  write(disk + "queue/io_poll", "1");
  write(disk + "mq/0/nr_tags", "15");
  const NvmeLimits l = nvme_limits(*find(NodeKind::block, 1), roots());
  EXPECT_EQ(l.size_bytes, 1u << 20);
  EXPECT_EQ(l.transfer_bytes_max, 32u << 10);
  EXPECT_EQ(l.segments_max, 9u);
  EXPECT_EQ(l.virt_boundary_mask, 4095u);
  EXPECT_EQ(l.dma_alignment, 3u);
  EXPECT_TRUE(l.volatile_cache && l.polled);
  EXPECT_EQ(l.tags, 15u);
  EXPECT_EQ(l.discard_bytes_max, 0u) << "what is not told is none";
}

TEST_F(NvmeNodeTest, ANodeThatIsAnotherNowIsGone) {
  namespace_at("devices/pci/nvme/nvme0", "0n1", 1);
  const auto node = find(NodeKind::block, 1);
  write("devices/pci/nvme/nvme0/ng0n1/dev", "242:5");
  EXPECT_FALSE(nvme_node_is_there(*node));
  fs::remove_all(sys() + "/devices/pci/nvme/nvme0/ng0n1");
  EXPECT_FALSE(nvme_node_is_there(*node));
}

TEST_F(NvmeNodeTest, ANodeThatCannotBeReadIsNotGone) {
  namespace_at("devices/pci/nvme/nvme0", "0n1", 1);
  const auto node = find(NodeKind::block, 1);
  fs::remove(sys() + "/devices/pci/nvme/nvme0/ng0n1/dev");
  EXPECT_TRUE(nvme_node_is_there(*node));
}

TEST_F(NvmeNodeTest, AnotherFormatIsSeen) {
  namespace_at("devices/pci/nvme/nvme0", "0n1", 1);
  const auto node = find(NodeKind::block, 1);
  const std::string disk = "devices/pci/nvme/nvme0/nvme0n1/";
  EXPECT_TRUE(nvme_format_is(*node, 512)) << "nothing is told";
  write(disk + "queue/logical_block_size", "512");
  write(disk + "metadata_bytes", "0");
  EXPECT_TRUE(nvme_format_is(*node, 512));
  EXPECT_FALSE(nvme_format_is(*node, 4096));
  write(disk + "metadata_bytes", "8");
  EXPECT_FALSE(nvme_format_is(*node, 512));
}

// Kernels before 6.8 do not tell the command set, but what is zoned.
TEST_F(NvmeNodeTest, AZonedNamespaceIsKnownWithoutItsCommandSet) {
  namespace_at("devices/pci/nvme/nvme0", "0n1", 1);
  const auto node = find(NodeKind::block, 1);
  const std::string disk = "devices/pci/nvme/nvme0/nvme0n1/";
  EXPECT_EQ(nvme_limits(*node, roots()).command_set, 0u);
  write(disk + "queue/zoned", "none");
  EXPECT_EQ(nvme_limits(*node, roots()).command_set, 0u);
  write(disk + "queue/zoned", "host-managed");
  EXPECT_EQ(nvme_limits(*node, roots()).command_set, 2u);
}

TEST_F(NvmeNodeTest, ACacheThatIsNotDeniedIsTakenToBeThere) {
  namespace_at("devices/pci/nvme/nvme0", "0n1", 1);
  const auto node = find(NodeKind::block, 1);
  EXPECT_TRUE(nvme_limits(*node, roots()).volatile_cache);
  write("devices/pci/nvme/nvme0/nvme0n1/queue/write_cache", "write through");
  EXPECT_FALSE(nvme_limits(*node, roots()).volatile_cache);
}

TEST(NvmeNode, PathsThatAreNoDevice) {
  EXPECT_EQ(find_nvme_node("/nowhere").error().kind, ErrorKind::not_found);
  EXPECT_NE(find_nvme_node("/").error().text().find("directory"), std::string::npos);
  EXPECT_NE(find_nvme_node("/proc/self/maps").error().text().find("regular file"), std::string::npos);
}

}  // namespace
}  // namespace ublkd
