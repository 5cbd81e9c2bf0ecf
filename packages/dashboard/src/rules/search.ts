import type { RuleMode } from '@wardline/contract'
import type { FiringDays } from '../service/rules.ts'

export interface RulesSearch {
  q?: string
  show?: RuleMode
}

export interface RuleSearch {
  days?: FiringDays
  /** An earlier version whose text is shown. */
  version?: number
}
