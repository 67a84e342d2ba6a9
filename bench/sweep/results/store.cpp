#include "bench/sweep/results/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "model/base/text/json.h"
#include "model/records/run_columns.h"

namespace isobar::sweep {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Columns of `runs`: the keys of every kind of net.
const std::vector<records::RunColumn>& all_columns() {
  static const std::vector<records::RunColumn> all = [] {
    std::vector<records::RunColumn> out;
    std::set<std::string> seen;
    for (const std::string& kind : NetSpec::kinds()) {
      records::RunRecord r;
      r.spec.net.set_kind(kind);
      for (records::RunColumn& c : records::run_columns(r))
        if (seen.insert(c.name).second) out.push_back(std::move(c));
    }
    return out;
  }();
  return all;
}

void bind(SQLite::Statement& s, int at, const json& v) {
  if (v.is_null())
    s.bind(at);
  else if (v.is_boolean())
    s.bind(at, v.get<bool>() ? 1 : 0);
  else if (v.is_number_integer())
    s.bind(at, v.get<int64_t>());
  else if (v.is_number())
    s.bind(at, v.get<double>());
  else
    s.bind(at, v.is_string() ? v.get<std::string>() : json_text(v));
}

void create_tables(SQLite::Database& db) {
  std::string columns;
  for (const records::RunColumn& c : all_columns())
    columns += (columns.empty() ? "" : ", ") + ("\"" + c.name + "\" ") + c.type;
  db.exec("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)");
  db.exec("INSERT INTO meta VALUES ('schema_version', '" + std::to_string(Store::kSchemaVersion) + "')");
  db.exec("CREATE TABLE runs (" + columns + ")");
  db.exec(
      "CREATE TABLE ops (run_id TEXT, path TEXT, kind TEXT, lane TEXT, count INTEGER, seconds REAL, flops "
      "REAL, "
      "bytes REAL)");
  db.exec("CREATE INDEX ops_run ON ops (run_id)");
  db.exec(
      "CREATE TABLE steps (run_id TEXT, step INTEGER, loss REAL, rmse REAL, mae REAL, lr REAL, grad_norm "
      "REAL, seconds "
      "REAL, "
      "samples_per_s REAL, data_wait_s REAL, rss_bytes INTEGER)");
  db.exec("CREATE INDEX steps_run ON steps (run_id)");
}

// "INSERT INTO table VALUES (?, ?, …)", prepared once and filled row by row.
class Insertion {
 public:
  Insertion(SQLite::Database& db, const std::string& table, size_t columns)
      : statement_(db, "INSERT INTO " + table + " VALUES (" + marks(columns) + ")") {}

  void row(const std::vector<json>& values) {
    for (size_t i = 0; i < values.size(); ++i) bind(statement_, static_cast<int>(i) + 1, values[i]);
    statement_.exec();
    statement_.reset();
  }

 private:
  static std::string marks(size_t n) {
    std::string text = "?";
    for (size_t i = 1; i < n; ++i) text += ", ?";
    return text;
  }
  SQLite::Statement statement_;
};

void add(SQLite::Database& db, const records::RunRecord& r) {
  std::map<std::string, json> said;
  for (records::RunColumn& c : records::run_columns(r)) said.emplace(std::move(c.name), std::move(c.value));
  std::vector<json> values;
  for (const records::RunColumn& c : all_columns()) {
    const auto value = said.find(c.name);
    values.push_back(value == said.end() ? json(nullptr) : std::move(value->second));
  }
  Insertion(db, "runs", values.size()).row(values);
  Insertion ops(db, "ops", 8), steps(db, "steps", 11);
  for (const records::OpRecord& o : r.ops)
    ops.row({r.id, o.path, o.kind, o.lane, o.count, records::finite(o.seconds), records::finite(o.flops),
             records::finite(o.bytes)});
  for (const records::StepRecord& t : r.steps)
    steps.row({r.id, t.step, records::finite(records::or_nan(t.loss)),
               records::finite(records::or_nan(t.rmse)), records::finite(records::or_nan(t.mae)),
               records::finite(records::or_nan(t.lr)), records::finite(records::or_nan(t.grad_norm)),
               records::finite(t.seconds), records::finite(t.samples_per_s),
               records::finite(t.data_wait_s.value_or(0)), t.rss_bytes.value_or(0)});
}

void remove_run(SQLite::Database& db, const std::string& id) {
  for (const char* where : {"runs WHERE id", "ops WHERE run_id", "steps WHERE run_id"}) {
    SQLite::Statement s(db, std::string("DELETE FROM ") + where + " = ?");
    s.bind(1, id);
    s.exec();
  }
}

void remove_with_journals(const fs::path& file) {
  // A leftover journal would be replayed into the next database of that name.
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) fs::remove(file.string() + suffix);
}

}  // namespace

Store::Store(const fs::path& results_dir) : file_(results_dir / "index.sqlite") {}

void Store::rebuild(const std::vector<records::RunRecord>& runs) const {
  const fs::path fresh = file_.string() + ".new";
  remove_with_journals(fresh);
  try {
    fill(fresh, runs);
  } catch (const SQLite::Exception& e) {
    throw std::runtime_error(fresh.string() + ": " + e.what() +
                             " -> make room; results are not touched, and the index is made "
                             "again from them");
  }
  remove_with_journals(file_);
  fs::rename(fresh, file_);
}

void Store::fill(const fs::path& fresh, const std::vector<records::RunRecord>& runs) {
  SQLite::Database db(fresh.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  db.exec("PRAGMA synchronous = OFF");  // safe: a lost index is rebuilt
  SQLite::Transaction all(db);
  create_tables(db);
  for (const records::RunRecord& r : runs) {
    remove_run(db, r.id);  // of duplicate runs the last counts
    add(db, r);
  }
  all.commit();
}

bool Store::put(const records::RunRecord& run) const {
  if (!fs::exists(file_)) return false;
  try {
    SQLite::Database db(file_.string(), SQLite::OPEN_READWRITE);
    db.setBusyTimeout(5000);  // a reader may hold a lock briefly
    SQLite::Statement version(db, "SELECT value FROM meta WHERE key = 'schema_version'");
    if (!version.executeStep() || version.getColumn(0).getString() != std::to_string(kSchemaVersion))
      return false;
    version.reset();
    SQLite::Transaction one(db);
    remove_run(db, run.id);
    add(db, run);
    one.commit();
    return true;
  } catch (const SQLite::Exception&) {
    return false;
  }
}

}  // namespace isobar::sweep
