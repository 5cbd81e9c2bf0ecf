import { limits } from '@wardline/contract'
import type { KeyRow } from './queries.ts'

/** Instances that a key may register; null = the default limit. */
export const maxInstances = ({ scope, max_instances }: Pick<KeyRow, 'scope' | 'max_instances'>): number | null =>
  scope === 'agent' ? (max_instances ?? limits.keyInstances) : null
