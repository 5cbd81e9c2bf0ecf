/** A process with control streams. */
interface StreamProcessesTable {
  /** Random, new at each startup. */
  id: string
  /** Time of registration, or of the latest one if other processes had considered it dead. */
  started_at: number
  /** Last sign of life. */
  seen_at: number
}

/** An instance that listens for control messages, and the process with its streams. */
interface ControlStreamsTable {
  process: string
  instance_id: string
  /** Further kinds of messages that at least one of the streams accepts, sorted and comma-separated. */
  understands: string
}

export interface ControlTables {
  stream_processes: StreamProcessesTable
  control_streams: ControlStreamsTable
}
