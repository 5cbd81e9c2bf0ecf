interface CountersTable {
  /**
   * event_seq, alert_seq: last assigned seq; indexed_seq: event_refs is complete up to this seq; counted_seq:
   * problem_counts has the events up to this seq; alert_config: incremented by every change of channels, routes and silences;
   * mailed_seq: alerts up to this seq were looked through for people who get mail;
   * policy_set: version of the policy sets, 0 = no policy was ever stored.
   */
  name: 'event_seq' | 'indexed_seq' | 'counted_seq' | 'alert_seq' | 'alert_config' | 'policy_set' | 'mailed_seq'
  value: number
}

interface JobRunsTable {
  name: string
  last_run_at: number
}

interface FactsTable {
  /**
   * secret_check: HMAC that identifies the master secret; copying_from: the database is an unfinished copy, see
   * db/copy.ts; decoy_folders: every decoy path has the digests of its folders; event_index: the index of all events was
   * checked once for what earlier versions left out; people_only: keys open no sessions, except the local admin key;
   * roles_version: version of the table of roles.
   */
  name: 'secret_check' | 'copying_from' | 'decoy_folders' | 'event_index' | 'people_only' | 'roles_version'
  value: string
}

interface SchemaVersionTable {
  version: number
  name: string
  applied_at: number
}

export interface DatabaseTables {
  counters: CountersTable
  job_runs: JobRunsTable
  facts: FactsTable
  schema_version: SchemaVersionTable
}
