import type { Dialect } from '../database.ts'

/** Keys of agents can be limited to certain models. */
export const keyModels = ({ text }: Dialect['ddl']): string[] => [`alter table api_keys add column models ${text}`]
