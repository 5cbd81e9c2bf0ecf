import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { CopyButton } from '../ui/copy-button.tsx'
import { Drawer, stepsOf } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { JsonText } from '../ui/json-text.tsx'
import { Fault } from '../ui/panel.tsx'
import { Facts } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { actorOf, type Entry } from './entries.ts'

interface EntryDrawerProps {
  seq: number
  entries: readonly Entry[]
  onOpen(seq: number): void
  onClose(): void
}

/** One entry, also one that is not in the list. */
export function EntryDrawer({ seq, entries, onOpen, onClose }: EntryDrawerProps) {
  const listed = entries.find((entry) => entry.seq === seq)
  const lookUp = useQuery({
    queryKey: queryKeys.auditEntry(seq),
    queryFn: async () =>
      (await call('listAudit', { query: { after: String(seq - 1), limit: '1' } })).entries[0] ?? null,
    enabled: listed === undefined,
  })
  const entry = listed ?? (lookUp.data?.seq === seq ? lookUp.data : undefined)
  const steps = stepsOf(
    entries.map((each) => each.seq),
    seq,
    onOpen,
  )
  return (
    <Drawer label="Audit entry" steps={steps} onClose={onClose}>
      {entry && <EntryFacts entry={entry} />}
      {!entry && lookUp.isPending && <p>Loading…</p>}
      {!entry && lookUp.isSuccess && <p>Entry {seq.toLocaleString('en')} does not exist.</p>}
      <Fault of={lookUp.error} />
    </Drawer>
  )
}

function EntryFacts({ entry }: { entry: Entry }) {
  const { seq, at, action, target, reason, before, after } = entry
  const code = (text: string | null, max = 200) => text !== null && <HostileText text={text} max={max} />
  const isAgent = target !== null && action.startsWith('instance.')
  return (
    <>
      <p>
        Entry {seq.toLocaleString('en')} · <Time at={at} />
      </p>
      <h2 className="mono">
        <HostileText text={action} />
      </h2>
      <Facts
        facts={[
          ['Actor', code(actorOf(entry))],
          [
            'Target',
            isAgent ? (
              <Link to="/fleet/$id" params={{ id: target }}>
                {code(target)}
              </Link>
            ) : (
              code(target)
            ),
          ],
          ['Reason', code(reason, 500)],
          ['Key', code(entry.actor), true],
          ['Scope', code(entry.scope), true],
          ['Address', code(entry.ip), true],
          ['Request', code(entry.request_id), true],
          ['Previous hash', code(entry.prev_hash), true],
          ['Hash', code(entry.hash), true],
        ]}
      />
      {Object.entries({ Before: before, After: after }).map(
        ([name, value]) =>
          value !== null && (
            <section key={name} aria-label={name}>
              <h3 className="quiet">{name}</h3>
              <JsonText value={value} />
            </section>
          ),
      )}
      <div className="chips">
        <CopyButton name="Copy as JSON" text={JSON.stringify(entry, null, 2)} />
      </div>
    </>
  )
}
