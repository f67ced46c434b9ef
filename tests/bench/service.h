// A server in this process with random models, and a client of it.
#ifndef HEED_TESTS_BENCH_SERVICE_H_
#define HEED_TESTS_BENCH_SERVICE_H_

#include <map>
#include <memory>
#include <string>

#include "client/client.h"
#include "engine/base/json.h"
#include "engine/models/model.h"
#include "engine/ops/gemm.h"
#include "server/service/server.h"
#include "tests/testing/random_model.h"

namespace heed {

class Service {
 public:
  // The configurations by their models' names.
  Service(const std::map<std::string, Json>& configs, Precision precision, int threads);

  const Client& client() const { return *client_; }
  const Model& model(const std::string& name) const { return *models_.at(name); }

  // Of one call for one input.
  struct Seconds {
    double call;     // as the client sees it
    double compute;  // as the answer says
  };
  Seconds Classify(const std::string& name, int64_t tokens) const;

 private:
  std::map<std::string, const Model*> models_;  // the server's
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> client_;
};

double Now();  // in seconds

}  // namespace heed

#endif  // HEED_TESTS_BENCH_SERVICE_H_
