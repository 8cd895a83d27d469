#ifndef KVROUTER_TESTS_SUPPORT_TEST_CERTIFICATES_H_
#define KVROUTER_TESTS_SUPPORT_TEST_CERTIFICATES_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace kvrouter {

// A certificate authority and what it signs, made by the openssl command in a directory that goes
// with the object.
class TestCertificates {
 public:
  TestCertificates() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvr-certs-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    folder_ = pattern;
    MakeAuthority("ca");
  }
  ~TestCertificates() { std::filesystem::remove_all(folder_); }
  TestCertificates(const TestCertificates&) = delete;
  TestCertificates& operator=(const TestCertificates&) = delete;

  std::string CaFile() const { return CertificateFile("ca"); }
  std::string CertificateFile(const std::string& name) const { return folder_ / (name + ".pem"); }
  std::string KeyFile(const std::string& name) const { return folder_ / (name + ".key"); }

  // Signed by itself.
  void MakeAuthority(const std::string& name) const {
    Run("openssl req -x509 " + Key(name) + " -out " + CertificateFile(name) + " -subj /CN=" + name +
        " -days 2");
  }
  // Signed by the authority "ca"; `names` e.g. "DNS:localhost,IP:127.0.0.1". Written as files are
  // replaced in production: whole, under another name first.
  void Make(const std::string& name, const std::string& names) const {
    const std::string made = name + ".new";
    Run("openssl req " + Key(made) + " -out " + Path(made + ".csr") + " -subj /CN=" + name);
    std::ofstream(Path(made + ".ext")) << "subjectAltName=" << names << "\n";
    Run("openssl x509 -req -in " + Path(made + ".csr") + " -CA " + CaFile() + " -CAkey " +
        KeyFile("ca") + " -CAcreateserial -days 2 -extfile " + Path(made + ".ext") + " -out " +
        CertificateFile(made));
    std::filesystem::rename(KeyFile(made), KeyFile(name));
    std::filesystem::rename(CertificateFile(made), CertificateFile(name));
  }

 private:
  std::string Path(const std::string& name) const { return folder_ / name; }
  std::string Key(const std::string& name) const {
    return "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout " + KeyFile(name);
  }
  static void Run(const std::string& command) {
    if (std::system((command + " 2>/dev/null").c_str()) != 0) throw std::runtime_error(command);
  }

  std::filesystem::path folder_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_SUPPORT_TEST_CERTIFICATES_H_
