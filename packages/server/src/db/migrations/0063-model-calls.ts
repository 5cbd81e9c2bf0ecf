import type { Dialect } from '../database.ts'

/** When an agent last called a model through the gateway. */
export const modelCalls = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table instances add column model_called_at ${bigint}`,
]
