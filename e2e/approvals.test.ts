import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runCommand } from './command.ts'
import { createKey, newInstance } from './fleet.ts'
import { isExternal, needsOwnProcess, newDataDir, type Service, startService } from './service.ts'

let service: Service
let operator: string
beforeAll(async () => {
  service = await startService()
  operator = await createKey(service, { scope: 'operator', name: 'Ada' })
})
afterAll(() => service?.stop())

const home = newDataDir()
const wardline = async (...args: string[]) => {
  const env = { HOME: home, WARDLINE_URL: service.baseUrl, WARDLINE_KEY: operator }
  const { code, stdout, stderr } = await runCommand(args, env, home)
  return { code, stdout, stderr }
}

interface ApprovalAnswer {
  id: string
  state: string
  expires_at: string
  reason: string | null
}

/** An agent with its own key, and a way to ask about calls. */
async function newAgent() {
  const id = await newInstance(service)
  const key = await createKey(service, { scope: 'agent', instances: [id] })
  const newCall = (args: unknown, tool = 'send_email') => ({
    attempt: randomUUID(),
    session_id: 'session-1',
    tool,
    args_sha256: Buffer.from(JSON.stringify(args).padEnd(32).slice(0, 32)).toString('hex'),
    args: JSON.stringify(args),
    policy_id: '01980000-0000-7000-8000-00000000a001',
    policy_version: 1,
    rule: 'Mail outside the company',
    approvals: 1,
    wait_seconds: 600,
  })
  const ask = async (call: ReturnType<typeof newCall>) => {
    const { status, body } = await service.call<ApprovalAnswer>('POST', `/api/instances/${id}/approvals`, {
      body: call,
      headers: { 'x-monitor-key': key },
    })
    expect(status).toBe(200)
    return body
  }
  return { id, key, newCall, ask }
}

test('an operator approves a call by its first characters, and the agent is notified and takes it', async () => {
  const agent = await newAgent()
  const stream = await service.openStream(`/api/instances/${agent.id}/control?understands=approval`, { key: agent.key })
  const call = agent.newCall({ to: 'a@example.com' })
  const { id, state } = await agent.ask(call)
  expect(state).toBe('pending')
  const listed = await wardline('approvals', 'list', '--instance', agent.id)
  expect(listed.stdout).toContain(`${id}  ${agent.id}  send_email  Mail outside the company  pending`)
  const approved = await wardline('approvals', 'approve', id.slice(0, 30), '--reason', 'known recipient')
  expect(approved).toEqual({ code: 0, stdout: `Approved send_email of ${agent.id}.\n`, stderr: '' })
  await stream.next(({ action, id: about }: { action: string; id: string }) => action === 'approval' && about === id)
  expect(await agent.ask(call)).toMatchObject({ id, state: 'granted', reason: 'known recipient' })
  const shown = await wardline('approvals', 'show', id)
  expect(shown.stdout).toMatch(/State +granted, approved by Ada/)
  expect(shown.stdout).toContain('{"to":"a@example.com"}')
  const again = await wardline('approvals', 'deny', id)
  expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('was approved by Ada')])
  stream.close()
})

test('an allowance permits so many calls, is listed and ends', async () => {
  const agent = await newAgent()
  const { id } = await agent.ask(agent.newCall({ n: 1 }))
  const approved = await wardline('approvals', 'approve', id, '--for', '1h', '--calls', '3')
  expect(approved.code).toBe(0)
  const [, allowance = ''] = /wardline approvals revoke ([0-9a-f-]{36})/.exec(approved.stdout) ?? []
  expect((await agent.ask(agent.newCall({ n: 2 }))).state).toBe('granted')
  const listed = await wardline('approvals', 'allowances')
  expect(listed.stdout).toMatch(new RegExp(`${allowance} +${agent.id} +send_email +active +2 of 3`))
  expect((await wardline('approvals', 'revoke', allowance)).stdout).toBe(
    'The allowance has ended: the next call asks again.\n',
  )
  expect((await agent.ask(agent.newCall({ n: 3 }))).state).toBe('pending')
})

test('the list shows hostile names and arguments without characters that a terminal obeys', async () => {
  const agent = await newAgent()
  const call = agent.newCall({ to: 'x' }, '\u001b[2J\u001b]0;owned\u0007tool\u202e')
  await agent.ask({ ...call, args: '\u001b[31m\r\nID  agent-9  pay  approved\u2028' })
  const { id } = await agent.ask(call)
  for (const args of [
    ['list', '--instance', agent.id],
    ['show', id],
  ]) {
    const { stdout } = await wardline('approvals', ...args)
    expect(stdout).toContain('tool')
    expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e]/)
  }
  const { stdout } = await wardline('approvals', 'list', '--instance', agent.id)
  expect(stdout.trimEnd().split('\n')).toHaveLength(2)
})

test('an unknown or ambiguous beginning of an id is refused with a sentence', async () => {
  const agent = await newAgent()
  await agent.ask(agent.newCall({ n: 1 }))
  await agent.ask(agent.newCall({ n: 2 }))
  const unknown = await wardline('approvals', 'approve', 'ffff')
  expect([unknown.code, unknown.stderr]).toEqual([
    2,
    'No pending approval begins with ffff; `wardline approvals` lists them.\n',
  ])
  const ambiguous = await wardline('approvals', 'deny', '0')
  expect([ambiguous.code, ambiguous.stderr]).toEqual([
    2,
    expect.stringMatching(/^\d+ pending approvals begin with 0; /),
  ])
})

test('a decision is delivered although the service is killed right after the press', async ({ skip }) => {
  if (isExternal) skip(needsOwnProcess)
  const agent = await newAgent()
  const call = agent.newCall({ to: 'b@example.com' })
  const { id } = await agent.ask(call)
  const { status } = await service.call('POST', `/api/approvals/${id}`, {
    body: { decision: 'approve' },
    headers: { 'x-monitor-key': operator },
  })
  expect(status).toBe(200)
  await service.kill9()
  await service.start()
  expect(await agent.ask(call)).toMatchObject({ id, state: 'granted' })
  // Killed again before the agent has the answer: the same attempt gets it, another one does not.
  await service.kill9()
  await service.start()
  expect(await agent.ask(call)).toMatchObject({ id, state: 'granted' })
  expect((await agent.ask(agent.newCall({ to: 'b@example.com' }))).state).toBe('pending')
})
