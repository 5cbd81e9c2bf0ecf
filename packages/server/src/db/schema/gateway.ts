/** What calls of models used of a budget in one day, in UTC. */
interface ModelBudgetsTable {
  /** As `2026-11-27`. */
  day: string
  /** Name of the budget in the file of the gateway. */
  budget: string
  /** Agent of a budget that each agent has; '' for a budget that agents share. */
  instance_id: string
  tokens: number
  /** Billionths of a USD. */
  nano_usd: number
  /** Of open calls, and of calls during which a process crashed. */
  reserved_tokens: number
  reserved_nano_usd: number
  /** When 80 % were reported. */
  warned_at: number | null
  /** When the first refusal was reported. */
  refused_at: number | null
}

export interface GatewayTables {
  model_budgets: ModelBudgetsTable
}
