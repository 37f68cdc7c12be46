// Our definitions against the kernel's own header, as far as the installed one goes.
#include "abi/ublk_cmd.h"

#include <gtest/gtest.h>
#include <linux/ublk_cmd.h>

#include "abi/user_data.h"

namespace ublkd::abi {
namespace {

TEST(UblkCmd, StructsHaveTheKernelsLayout) {
  EXPECT_EQ(sizeof(CtrlCmd), sizeof(ublksrv_ctrl_cmd));
  EXPECT_EQ(sizeof(DevInfo), sizeof(ublksrv_ctrl_dev_info));
  EXPECT_EQ(offsetof(DevInfo, flags), offsetof(ublksrv_ctrl_dev_info, flags));
  EXPECT_EQ(offsetof(DevInfo, ublksrv_pid), offsetof(ublksrv_ctrl_dev_info, ublksrv_pid));
  EXPECT_EQ(sizeof(IoDesc), sizeof(ublksrv_io_desc));
  EXPECT_EQ(offsetof(IoDesc, start_sector), offsetof(ublksrv_io_desc, start_sector));
  EXPECT_EQ(sizeof(IoCmd), sizeof(ublksrv_io_cmd));
  EXPECT_EQ(offsetof(IoCmd, addr), offsetof(ublksrv_io_cmd, addr));
  EXPECT_EQ(offsetof(Params, basic), offsetof(ublk_params, basic));
  EXPECT_EQ(offsetof(Params, discard), offsetof(ublk_params, discard));
}

TEST(UblkCmd, NumbersAreTheKernels) {
  EXPECT_EQ(_IOC_NR(u_cmd_add_dev), UBLK_CMD_ADD_DEV);
  EXPECT_EQ(_IOC_NR(u_cmd_del_dev), UBLK_CMD_DEL_DEV);
  EXPECT_EQ(_IOC_NR(u_cmd_start_dev), UBLK_CMD_START_DEV);
  EXPECT_EQ(_IOC_NR(u_cmd_stop_dev), UBLK_CMD_STOP_DEV);
  EXPECT_EQ(_IOC_NR(u_cmd_set_params), UBLK_CMD_SET_PARAMS);
  EXPECT_EQ(_IOC_NR(u_io_fetch_req), UBLK_IO_FETCH_REQ);
  EXPECT_EQ(_IOC_NR(u_io_commit_and_fetch_req), UBLK_IO_COMMIT_AND_FETCH_REQ);
  EXPECT_EQ(io_op_read, static_cast<std::uint32_t>(UBLK_IO_OP_READ));
  EXPECT_EQ(io_op_write_zeroes, static_cast<std::uint32_t>(UBLK_IO_OP_WRITE_ZEROES));
  EXPECT_EQ(io_f_fua, UBLK_IO_F_FUA);
  EXPECT_EQ(io_f_nounmap, UBLK_IO_F_NOUNMAP);
  EXPECT_EQ(io_res_abort, UBLK_IO_RES_ABORT);
}

TEST(UblkCmd, TheDescriptorStrideDoesNotDependOnTheDepth) {
  EXPECT_EQ(desc_stride_bytes(24, 4096), 24u * 4096u);
  EXPECT_EQ(desc_stride_bytes(24, 65536), 131072u);
}

TEST(UserData, KeepsItsParts) {
  namespace ud = user_data;
  const std::uint64_t word = ud::make(ud::Kind::target, 200, 0xfedc, 0x89abcdef);
  EXPECT_EQ(ud::kind(word), ud::Kind::target);
  EXPECT_EQ(ud::step(word), 200);
  EXPECT_EQ(ud::generation(word), 0xfedc);
  EXPECT_EQ(ud::index(word), 0x89abcdefu);
}

TEST(UserData, AUblkWordsUpperHalfIsItsGeneration) {
  namespace ud = user_data;
  EXPECT_EQ(ud::upper(ud::make(ud::Kind::ublk, 0, 77, 5)), 77u);
}

}  // namespace
}  // namespace ublkd::abi
