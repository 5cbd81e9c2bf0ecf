import type { Dialect } from '../database.ts'

/** Which agent was verified, from which registration file, and why a score is missing. */
export const verifiedAgents = ({ text }: Dialect['ddl']): string[] =>
  [
    'agent_registry',
    'agent_id',
    'agent_uri',
    'agent_uri_hash',
    'document_hash',
    'applies',
    'wav_error',
    'wv_error',
  ].map((column) => `alter table verifications add column ${column} ${text}`)
