import { expect, test } from 'vitest'
import { guessLabels, type ListedTool, unknownTool } from './guess.ts'
import type { Label } from './labels.ts'

const withArgs = (name: string, ...args: string[]): ListedTool => ({
  name,
  inputSchema: { properties: Object.fromEntries(args.map((arg) => [arg, {}])) },
})

/** Tools by their names alone. */
test.each<[string, Label[]]>([
  ['get_price', []],
  ['get_product_price', ['untrusted']],
  ['get_weather_by_search', []],
  ['list_contacts', ['directory', 'private']],
  ['list_contact_emails', ['untrusted', 'private']],
  ['read_page', ['untrusted']],
  ['getUnreadEmails', ['untrusted', 'private']],
  ['mcp__x__GmailReadPDFNotes', ['untrusted', 'private']],
  ['create_note', ['changes']],
  ['create_comment', ['sends', 'changes']],
  ['create_draft_comment', ['changes']],
  ['update_comment', ['changes']],
  ['sent_thing', ['untrusted', 'sends']],
  ['posting', ['sends', 'changes']],
  ['publishes_thing', ['sends', 'changes', 'irreversible']],
  ['delete_row', ['changes', 'irreversible']],
  ['schedule_transaction', ['sends', 'changes', 'irreversible']],
  ['calculate_payment', []],
  ['add_user', ['sends', 'changes']],
  ['add_row', ['changes']],
  ['mark_user', ['changes']],
  ['update_password', ['changes', 'irreversible']],
  ['run_script', ['untrusted', 'sends', 'changes', 'irreversible']],
  ['calculate_sum', []],
  ['send_receive', ['sends', 'changes', 'irreversible']],
])('%s is %j', (name, labels) => expect([...guessLabels({ name }).is].sort()).toEqual([...labels].sort()))

test('a tool about which nothing is known counts as one that reads and sends', () => {
  expect(guessLabels({ name: 'frobnicate' })).toEqual(unknownTool)
  expect(guessLabels({ ...withArgs('frobnicate', 'to', 'size') })).toEqual({ ...unknownTool, destination: ['to'] })
  expect(guessLabels({ name: 'frobnicate', annotations: { readOnlyHint: true } }).is).toEqual(['untrusted'])
  expect(guessLabels({ name: 'frobnicate', annotations: { destructiveHint: true } }).is).toEqual([
    'irreversible',
    'changes',
  ])
  expect(guessLabels({ name: 'get_price', annotations: { destructiveHint: true } }).is).toEqual([
    'irreversible',
    'changes',
  ])
  expect(guessLabels({ name: 'send_mail', annotations: { readOnlyHint: true } }).is).toContain('sends')
})

test('a name without a verb is explained by the first sentence of the description', () => {
  const described = (description: unknown) =>
    [...guessLabels({ name: 'x7', description: description as string }).is].sort()
  expect(described('Deletes all rows. Sends mail.')).toEqual(['changes', 'irreversible'])
  expect(described('A tool that will delete rows')).toEqual(['sends', 'untrusted'])
  expect(described('Reads the contacts\nof a user')).toEqual(['private', 'untrusted'])
  expect(described(7)).toEqual(['sends', 'untrusted'])
  expect(described(`${' '.repeat(1_000)}delete`)).toEqual(['sends', 'untrusted'])
})

test('what reads an address also sends', () => {
  const sorted = (tool: ListedTool) => [...guessLabels(tool).is].sort()
  expect(sorted(withArgs('open_page', 'URL'))).toEqual(['fetches', 'sends', 'untrusted'])
  expect(sorted(withArgs('get_website', 'links'))).toEqual(['fetches', 'sends', 'untrusted'])
  expect(sorted(withArgs('open_page', 'curl'))).toEqual(['untrusted'])
  expect(sorted(withArgs('read_page', 'url'))).toEqual(['untrusted'])
  expect(guessLabels(withArgs('open_page', 'url', 'size')).destination).toEqual(['url'])
  expect(guessLabels(withArgs('read_page', 'url')).destination).toEqual([])
})

test('arguments that say where an effect goes, or add people, are found by their names', () => {
  const directing = ['to', 'Email_Address', 'task_id', 'TASK_IDS', 'taskIds', 'recipient_list']
  const others = ['taskID', 'grid', 'myrecipient', 'size']
  expect(guessLabels(withArgs('update_task', ...directing, ...others)).destination).toEqual(directing)
  const adding = ['participant', 'attendees', 'Invitee', 'recipients', 'cc', 'bcc', 'share_with', 'sharewith', 'email']
  expect(guessLabels(withArgs('create_event', ...adding, 'accept', 'ccs')).when).toEqual(
    Object.fromEntries(adding.map((arg) => [arg, ['sends']])),
  )
  expect(guessLabels(withArgs('read_event', 'email')).when).toEqual({})
  const many = Array.from({ length: 101 }, (_, at) => `a${at}_id`)
  expect(guessLabels(withArgs('update_task', ...many)).destination).toEqual(many.slice(0, 100))
})
