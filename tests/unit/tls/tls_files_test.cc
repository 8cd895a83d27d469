// What whoever starts with the wrong file is told: the setting, the file, what is wrong with it.
#include "adapters/tls/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/test_certificates.h"

namespace kvrouter {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TlsFilesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    certificates_ = new TestCertificates();
    certificates_->Make("door", "DNS:localhost");
    certificates_->Make("other", "DNS:localhost");
  }
  static void TearDownTestSuite() {
    delete certificates_;
    certificates_ = nullptr;
  }

  static std::string Certificate(const std::string& name = "door") {
    return certificates_->CertificateFile(name);
  }
  static std::string Key(const std::string& name = "door") { return certificates_->KeyFile(name); }
  static std::string Folder() { return std::filesystem::path(Key()).parent_path(); }
  static std::string File(const std::string& name, const std::string& text) {
    const std::string path = Folder() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  static std::string Problem(const std::string& certificate, const std::string& key,
                             const std::string& authorities = "") {
    const absl::Status status =
        CheckTlsFiles({.certificate = {.setting = "the_cert_path", .path = certificate},
                       .key = {.setting = "the_key_path", .path = key},
                       .authorities = {.setting = "the_ca_path", .path = authorities}});
    return std::string(status.message().data(), status.message().size());
  }

  static TestCertificates* certificates_;
};
TestCertificates* TlsFilesTest::certificates_ = nullptr;

TEST_F(TlsFilesTest, FilesThatFitAreFine) {
  EXPECT_EQ(Problem("", ""), "");
  EXPECT_EQ(Problem(Certificate(), Key()), "");
  EXPECT_EQ(Problem(Certificate(), Key(), certificates_->CaFile()), "");
  EXPECT_EQ(Problem("", "", certificates_->CaFile()), "");
}

TEST_F(TlsFilesTest, OneWithoutTheOtherNamesBothSettings) {
  EXPECT_THAT(Problem(Certificate(), ""),
              AllOf(HasSubstr("the_cert_path: \"" + Certificate() + "\""),
                    HasSubstr("needs the_key_path, which is empty")));
  EXPECT_THAT(Problem("", Key()), AllOf(HasSubstr("the_key_path: \"" + Key() + "\""),
                                        HasSubstr("needs the_cert_path, which is empty")));
}

TEST_F(TlsFilesTest, AFileThatIsNotThereIsSaidToBeMissing) {
  const std::string missing = Folder() + "/no-such-file.pem";
  for (const std::string& problem :
       {Problem(missing, Key()), Problem(Certificate(), missing), Problem("", "", missing)}) {
    EXPECT_THAT(problem, HasSubstr("\"" + missing + "\" cannot be read: No such file"));
  }
  EXPECT_THAT(Problem(missing, Key()), HasSubstr("the_cert_path: "));
  EXPECT_THAT(Problem(Certificate(), missing), HasSubstr("the_key_path: "));
  EXPECT_THAT(Problem("", "", missing), HasSubstr("the_ca_path: "));
}

TEST_F(TlsFilesTest, AFileThatCannotBeReadOrIsEmptySaysSo) {
  EXPECT_THAT(Problem(Folder(), Key()),
              HasSubstr("the_cert_path: \"" + Folder() + "\" cannot be read: Is a directory"));
  EXPECT_THAT(Problem(Certificate(), File("empty.key", "")),
              AllOf(HasSubstr("the_key_path: "), HasSubstr("empty.key\" is empty")));
  const std::string locked = File("locked.key", "x");
  chmod(locked.c_str(), 0);
  if (geteuid() != 0) {
    EXPECT_THAT(Problem(Certificate(), locked), HasSubstr("cannot be read: Permission denied"));
  }
}

TEST_F(TlsFilesTest, AFileOfAnotherKindSaysWhatIsMissingInIt) {
  const std::string text = File("text.pem", "no certificate\n");
  EXPECT_THAT(Problem(text, Key()),
              AllOf(HasSubstr("the_cert_path: "), HasSubstr("holds no usable certificate (PEM)")));
  EXPECT_THAT(Problem(Key(), Key()), HasSubstr("holds no usable certificate"));
  EXPECT_THAT(Problem(Certificate(), Certificate()),
              AllOf(HasSubstr("the_key_path: "), HasSubstr("holds no usable private key")));
  EXPECT_THAT(Problem("", "", text),
              AllOf(HasSubstr("the_ca_path: "), HasSubstr("holds no usable certificate")));
}

TEST_F(TlsFilesTest, AKeyOfAnotherCertificateNamesBothFiles) {
  EXPECT_THAT(Problem(Certificate(), Key("other")),
              AllOf(HasSubstr("the_key_path: \"" + Key("other") +
                              "\" does not belong to the "
                              "certificate of the_cert_path, \"" +
                              Certificate() + "\""),
                    HasSubstr("mismatch")));
}

// And nobody is asked for it: a daemon that waits for a terminal looks as if it hung.
TEST_F(TlsFilesTest, AKeyUnderAPassPhraseIsNotUsable) {
  const std::string locked = Folder() + "/locked-up.key";
  const std::string command =
      "openssl ec -aes256 -passout pass:secret -in " + Key() + " -out " + locked + " 2>/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_THAT(Problem(Certificate(), locked),
              AllOf(HasSubstr("the_key_path: "), HasSubstr("without a pass phrase")));
}

}  // namespace
}  // namespace kvrouter
