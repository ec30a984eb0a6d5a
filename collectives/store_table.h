// A Store as a plugin sees it: the store table of plugin_abi.h.

#ifndef COLLECTIVES_STORE_TABLE_H_
#define COLLECTIVES_STORE_TABLE_H_

#include "collectives/plugin_abi.h"
#include "collectives/store.h"

namespace muonshard {

class StoreTable {
 public:
  // `store` outlives this object.
  explicit StoreTable(Store& store);
  StoreTable(const StoreTable&) = delete;
  StoreTable& operator=(const StoreTable&) = delete;

  const muonshard_store* get() const { return &table_; }
  Store& store() const { return *static_cast<Store*>(table_.context); }

 private:
  muonshard_store table_;
};

}  // namespace muonshard

#endif  // COLLECTIVES_STORE_TABLE_H_
