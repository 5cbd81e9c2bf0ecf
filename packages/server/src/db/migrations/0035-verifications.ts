import type { Dialect } from '../database.ts'

/** Scores of the service's own endpoint and wallet. */
export const verifications = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table verifications (
    id ${text} primary key, at ${bigint} not null, url ${text}, wallet ${text}, chain_id ${bigint} not null,
    wav_score ${bigint}, wav_notes ${text} not null, wv_score ${bigint}, wv_notes ${text} not null,
    unified_score ${bigint}, is_complete ${bigint} not null, request_hash ${text}, report ${text}
  )`,
  'create index verifications_at on verifications (at)',
]
