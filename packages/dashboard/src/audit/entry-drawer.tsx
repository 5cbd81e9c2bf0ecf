import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CopyButton } from '../parts/copy-button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import '../parts/facts.css'
import { HostileText } from '../parts/hostile-text.tsx'
import { JsonText } from '../parts/json-text.tsx'
import { Time } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { actorOf, type Entry } from './entries.ts'

/** One entry. `j` and `k` go to the next and previous one, Escape closes. */
export function EntryDrawer({
  seq,
  entries,
  onOpen,
  onClose,
}: {
  seq: number
  entries: readonly Entry[]
  onOpen(seq: number): void
  onClose(): void
}) {
  const index = entries.findIndex((entry) => entry.seq === seq)
  const lookUp = useQuery({
    queryKey: ['audit-entry', seq],
    queryFn: async () =>
      (await call('listAudit', { query: { after: String(seq - 1), limit: '1' } })).entries[0] ?? null,
    enabled: index < 0,
  })
  const found = entries[index] ?? lookUp.data ?? undefined
  const entry = found?.seq === seq ? found : undefined
  const step = (by: number) => {
    const next = entries[index + by]?.seq
    if (index >= 0 && next) onOpen(next)
  }
  return (
    <Dialog label="Audit entry" onClose={onClose} className="drawer">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: keys of the dialog */}
      <div
        onKeyDown={(event) => {
          if (event.key === 'j') step(1)
          if (event.key === 'k') step(-1)
        }}
      >
        <div className="chips">
          <button type="button" onClick={onClose}>
            Close <kbd>Esc</kbd>
          </button>
          <button type="button" disabled={index < 0 || !entries[index + 1]} onClick={() => step(1)}>
            Older <kbd>j</kbd>
          </button>
          <button type="button" disabled={index < 1} onClick={() => step(-1)}>
            Newer <kbd>k</kbd>
          </button>
        </div>
        {entry ? (
          <EntryFacts entry={entry} />
        ) : (
          <p className="facts">
            {lookUp.isPending && 'Reading the entry…'}
            {lookUp.error && sentenceOf(lookUp.error)}
            {lookUp.isSuccess && `No entry ${seq.toLocaleString('en')} is on record.`}
          </p>
        )}
      </div>
    </Dialog>
  )
}

function EntryFacts({ entry }: { entry: Entry }) {
  const { seq, at, action, target, reason, before, after } = entry
  const facts: [name: string, value: string | null][] = [
    ['key', entry.actor],
    ['scope', entry.scope],
    ['address', entry.ip],
    ['request', entry.request_id],
    ['previous hash', entry.prev_hash],
    ['hash', entry.hash],
  ]
  return (
    <div className="facts">
      <p>
        Entry {seq.toLocaleString('en')} · <Time at={at} />
      </p>
      <h2 className="mono">
        <HostileText text={action} />
      </h2>
      <p>
        by <HostileText text={actorOf(entry)} />
        {target !== null && ' on '}
        {target !== null &&
          (/^instance\./.test(action) ? (
            <Link to="/fleet/$id" params={{ id: target }}>
              <HostileText text={target} max={200} />
            </Link>
          ) : (
            <HostileText text={target} max={200} />
          ))}
      </p>
      {reason !== null && (
        <p>
          <HostileText text={reason} max={500} />
        </p>
      )}
      <table>
        <tbody>
          {facts.map(
            ([name, value]) =>
              value !== null && (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  <td className="mono">
                    <HostileText text={value} />
                  </td>
                </tr>
              ),
          )}
        </tbody>
      </table>
      {before !== null && (
        <section aria-label="Before">
          <h3 className="quiet">before</h3>
          <JsonText value={before} />
        </section>
      )}
      {after !== null && (
        <section aria-label="After">
          <h3 className="quiet">after</h3>
          <JsonText value={after} />
        </section>
      )}
      <div className="chips">
        <CopyButton name="Copy as JSON" text={JSON.stringify(entry, null, 2)} />
      </div>
    </div>
  )
}
