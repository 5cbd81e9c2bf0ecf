import type { ClientBase } from 'pg'

/** As long as the server itself waits for a client within a transaction (`idle_in_transaction_session_timeout`). */
export const abandonedAfterMs = 1_000

/**
 * Ends transactions of this service that wait for their client. A process that was paused while it sent a long batch
 * would otherwise hold its locks until it goes on: between the messages of a pipeline no timeout of the server counts
 * (before `transaction_timeout` of PostgreSQL 17).
 */
export async function endAbandoned(client: ClientBase): Promise<void> {
  await client.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and usename = current_user and pid <> pg_backend_pid()
        and application_name = 'wardline writes' and xact_start is not null and wait_event = 'ClientRead'
        and state_change < pg_catalog.clock_timestamp() - interval '${abandonedAfterMs} milliseconds'`,
  )
}
