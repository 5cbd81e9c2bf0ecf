import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { Count, choice, limits, nullable, Timestamp } from './fields.ts'
import { Type } from './type.ts'

const use = (amount: typeof Count | ReturnType<typeof Type.Number>) =>
  Type.Object({
    limit: nullable(amount),
    used: amount,
    reserved: { ...amount, description: 'For open calls, and for calls during which a process crashed' },
  })

export const BudgetView = Type.Object({
  name: Type.String(),
  for: Type.Object({ tags: Type.Array(Type.String()), instances: Type.Array(Type.String()) }),
  each_agent: Type.Boolean({ description: 'Whether each agent has this budget; else all of them share it' }),
  instance_id: nullable(Type.String({ description: 'The agent whose use this is; null: of all agents together' })),
  per: choice(['day']),
  tokens: use(Count),
  usd: use(Type.Number({ minimum: 0 })),
  warned_at: nullable(Timestamp),
  refused_at: nullable(Timestamp),
  renews_at: Timestamp,
})
export type BudgetView = Static<typeof BudgetView>

const BudgetList = Type.Object({ budgets: Type.Array(BudgetView) })

export const gatewayEndpoints = {
  listBudgets: define({
    method: 'GET',
    path: '/api/gateway/budgets',
    access: access.readers,
    teams: 'refused',
    feature: 'gateway',
    summary: `List what agents used of their budgets for models today, in UTC; of a budget that each agent has, the ${limits.budgetAgents} agents that used most`,
    status: 200,
    reply: BudgetList,
  }),
}
