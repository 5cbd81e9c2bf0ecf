import type { ClientBase } from 'pg'

/** Also the server's limit for an idle client in a transaction (`idle_in_transaction_session_timeout`). */
export const abandonedAfterMs = 1_000

/**
 * Terminates transactions of this service that wait for their client. Otherwise a process paused while sending a long
 * batch would hold its locks until it resumes: before PostgreSQL 17 (`transaction_timeout`), no server timeout applies
 * between the messages of a pipeline.
 */
export async function endAbandoned(client: ClientBase): Promise<void> {
  await client.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and usename = current_user and pid <> pg_backend_pid()
        and application_name = 'wardline writes' and xact_start is not null and wait_event = 'ClientRead'
        and state_change < pg_catalog.clock_timestamp() - interval '${abandonedAfterMs} milliseconds'`,
  )
}
