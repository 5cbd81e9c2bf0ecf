import type { Dialect } from '../database.ts'

export const keyQuotas = ({ text }: Dialect['ddl']): string[] => [`alter table api_keys add column quotas ${text}`]
