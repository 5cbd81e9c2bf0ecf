import type { KnownTool } from '@wardline/contract'
import type { Report } from '@wardline/sdk'
import { toolCallEvent } from '@wardline/sdk/events'
import { between, pick, type Random } from './random.ts'
import type { CastMember, Role } from './story.ts'

export interface SimulatedCall {
  toolName: KnownTool
  /** Text for people, in place of the name of the tool. */
  doing: string
  params: Record<string, unknown>
}

const search = (query: string, doing: string): SimulatedCall => ({ toolName: 'web-search', doing, params: { query } })
const read = (path: string, doing: string): SimulatedCall => ({ toolName: 'file-read', doing, params: { path } })
const request = (url: string, doing: string): SimulatedCall => ({
  toolName: 'http-request',
  doing,
  params: { method: 'GET', url },
})
const shell = (command: string, doing: string): SimulatedCall => ({
  toolName: 'shell-exec',
  doing,
  params: { command },
})
const mail = (to: string, subject: string, doing: string): SimulatedCall => ({
  toolName: 'email-send',
  doing,
  params: { to, subject },
})
const code = (text: string, doing: string): SimulatedCall => ({
  toolName: 'code-exec',
  doing,
  params: { language: 'python', code: text },
})

/** What every agent does now and then. */
const commonCalls: readonly SimulatedCall[] = [
  search('release notes of the ticket system', 'Searched for release notes'),
  read('/srv/handbook/contacts.md', 'Read the list of contacts'),
  request('https://status.example/api/v1/services', 'Asked whether all services are up'),
  shell('df -h', 'Checked the free disk space'),
  mail('team@corp.example', 'Summary of the day', 'Sent the summary of the day'),
  code('round(sum(values) / len(values), 2)', 'Computed an average'),
]

const usualCalls: Readonly<Record<string, readonly SimulatedCall[]>> = {
  support: [
    search('shipping policy for returns', 'Looked up the shipping policy'),
    search('error E-217 after login', 'Searched the knowledge base'),
    read('/srv/handbook/returns.md', 'Read the customer handbook'),
    read('/srv/tickets/open.json', 'Read the open tickets'),
    mail('customer@mail.example', 'Your order', 'Answered a customer'),
    mail('returns@corp.example', 'Return approved', 'Forwarded a return'),
  ],
  coding: [
    read('/srv/repo/src/checkout/cart.ts', 'Read a pull request'),
    read('/srv/repo/package.json', 'Read the dependencies'),
    shell('npm test --silent', 'Ran the test suite'),
    shell('git diff --stat main', 'Compared with the main branch'),
    code('len([f for f in findings if f.severity > 2])', 'Counted the findings'),
  ],
  research: [
    search('market of battery recycling 2026', 'Searched for a market study'),
    search('reports on lithium prices', 'Searched for reports'),
    request('https://papers.example/api/search?q=recycling', 'Searched an archive of papers'),
    request('https://rates.example/v1/latest', 'Fetched an exchange rate'),
    read('/srv/research/outline.md', 'Read the outline'),
  ],
  finance: [
    request('https://orders.example/api/v1/invoices?state=open', 'Asked the order service for open invoices'),
    request('https://rates.example/v1/latest', 'Fetched an exchange rate'),
    read('/srv/billing/2026/invoices.csv', 'Read the invoices'),
    read('/srv/handbook/refunds.md', 'Read the rules for refunds'),
    mail('billing@customer.example', 'Your invoice', 'Sent an invoice'),
  ],
  analytics: [
    code("orders.groupby('week').revenue.sum()", 'Computed the revenue by week'),
    code("orders.plot(x='week', y='revenue')", 'Drew a chart'),
    read('/srv/data/orders.parquet', 'Read the orders'),
    read('/srv/data/visits.csv', 'Read the visits'),
    shell('wc -l /srv/data/visits.csv', 'Counted the visits'),
  ],
  mail: [
    mail('support@corp.example', 'Fwd: Question about my order', 'Forwarded a question'),
    mail('customer@mail.example', 'We received your message', 'Confirmed a message'),
    search('sender of newsletter.example', 'Looked up a sender'),
    read('/srv/inbox/unread.json', 'Read the unread mails'),
    read('/srv/handbook/triage.md', 'Read the rules of the inbox'),
  ],
  operations: [
    shell('kubectl get pods -n shop', 'Listed the pods'),
    shell('kubectl rollout status deployment/shop -n shop', 'Watched a rollout'),
    shell('make build', 'Built a release'),
    request('https://registry.corp.example/v2/shop/tags/list', 'Listed the images'),
    request('https://grafana.corp.example/api/health', 'Asked for the health of the dashboards'),
    read('/srv/deploy/shop.yaml', 'Read the manifest'),
  ],
}

/** All calls that agents of the role make. */
export const callsOf = ({ agentType }: Role): readonly SimulatedCall[] => [
  ...(usualCalls[agentType] ?? []),
  ...commonCalls,
]

/** Picks a call of the role for 85 % of the calls, else one that every agent makes. */
export const pickCall = (random: Random, { agentType }: Role): SimulatedCall =>
  pick(random, random() < 0.85 ? usualCalls[agentType]! : commonCalls)

/** The call as the SDK reports it. */
export function callReport(random: Random, { id }: CastMember, sessionId: string, call: SimulatedCall): Report {
  const { toolName, params, doing } = call
  const durationMs = between(random, 20, 1_800)
  const event = toolCallEvent({ toolName, params, durationMs, sessionId }, id)
  if (typeof event === 'string') throw new Error(event)
  return { severity: 'info', eventType: event.event_type, description: doing, sessionId, metadata: event.metadata }
}
