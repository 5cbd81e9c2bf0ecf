import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type ListStored, type ListView, listLimits } from '@wardline/contract'
import { useRef, useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { entriesOf, listQuery } from '../data/lists.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useMayOperate } from '../data/session.ts'
import { ChangeButton, ChangeDialog, entered } from '../parts/change-dialog.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { Button } from '../ui/button.tsx'
import { SearchField, TextArea, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Notice, Screen } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import { DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { plainText } from '../ui/unseen-characters.ts'

const route = getRouteApi('/inside/rules/lists/$name')
const changes = [queryKeys.lists]

const entriesText = (count: number): string => (count === 1 ? '1 entry' : `${count.toLocaleString('en')} entries`)

/** What a change did, which others may have done before. */
function changedText({ added, removed }: ListStored): string {
  if (added + removed === 0) return 'Nothing changed.'
  const parts = [added > 0 && `${entriesText(added)} added`, removed > 0 && `${entriesText(removed)} removed`]
  return `${parts.filter(Boolean).join(', ')}.`
}

/** Adds entries to whatever the list has by then. */
function AddEntries({ name }: { name: string }) {
  return (
    <ChangeButton
      name="Add entries…"
      title="Add entries"
      submit="Add"
      changes={changes}
      send={async (form) => {
        const add = entriesOf(String(form.get('entries'))).filter((entry) => !entry.startsWith('#'))
        return changedText(await call('changeListEntries', { params: { name }, body: { add } }))
      }}
    >
      <TextArea
        label="Entries"
        hint="One a line. Lines that begin with # are left out. Rules that use the list have them from the next event on."
        name="entries"
        required
        isFirst
        rows={8}
        spellCheck={false}
      />
    </ChangeButton>
  )
}

/** Replaces the list as it was when the dialog opened: who changed it meanwhile is not overwritten. */
function EditDialog({ list: { name, description, entries, version }, onClose }: { list: ListView; onClose(): void }) {
  const [opened] = useState({ description, entries, version })
  return (
    <ChangeDialog
      title="Edit the list"
      submit="Save"
      changes={changes}
      send={async (form) => {
        const body = {
          description: entered(form, 'description'),
          entries: entriesOf(String(form.get('entries'))),
          version: opened.version,
        }
        const stored = await call('putList', { params: { name }, body })
        return `List saved. ${changedText(stored)}`
      }}
      onClose={onClose}
    >
      <TextField
        label="Description"
        name="description"
        defaultValue={opened.description}
        maxLength={listLimits.description}
        autoComplete="off"
      />
      {opened.entries.some((entry) => plainText(entry) !== entry) && (
        <Notice>Some entries contain characters that are invisible here: the table of the page shows them.</Notice>
      )}
      <TextArea
        label="Entries"
        hint="All entries, one a line."
        name="entries"
        isFirst
        rows={14}
        spellCheck={false}
        defaultValue={opened.entries.join('\n')}
      />
    </ChangeDialog>
  )
}

function Entries({ list: { name, entries } }: { list: ListView }) {
  const { q = '' } = route.useSearch()
  const navigate = route.useNavigate()
  const mayOperate = useMayOperate()
  const [text, setText] = useState(q)
  const field = useRef<HTMLInputElement>(null)
  const { isBusy, fault, run } = useChange({ changes })
  useKeys({ '/': () => field.current?.focus() })
  const found = entries.filter((entry) => entry.toLowerCase().includes(q.toLowerCase()))
  const remove = (entry: string) =>
    run(async () => changedText(await call('changeListEntries', { params: { name }, body: { remove: [entry] } })))
  return (
    <>
      <div className="chips">
        <SearchField
          field={field}
          label="Filter entries"
          value={text}
          onChange={(next) => {
            setText(next)
            void navigate({ search: { q: next || undefined }, replace: true, resetScroll: false })
          }}
        />
        {q !== '' && (
          <span className="quiet">
            {found.length.toLocaleString('en')} of {entriesText(entries.length)}
          </span>
        )}
      </div>
      <DataTable
        title="Entries"
        fault={fault}
        columns={[{ name: 'Entry', cell: (entry) => <span className="mono">{<HostileText text={entry} />}</span> }]}
        rows={found}
        rowKey={(entry) => entry}
        empty={entries.length === 0 ? 'No entries: the list matches nothing.' : 'No matching entries.'}
        isStacked={false}
        {...(mayOperate && {
          actions: (entry: string) => (
            <Button disabled={isBusy} aria-label={`Remove ${plainText(entry)}`} onClick={() => void remove(entry)}>
              Remove
            </Button>
          ),
        })}
      />
    </>
  )
}

function Origin({ list: { description, count, version, changed_at, changed_by } }: { list: ListView }) {
  return (
    <>
      {description !== '' && (
        <>
          <HostileText text={description} max={500} />
          <br />
        </>
      )}
      {entriesText(count)} · v{version} · changed <Time at={changed_at} />
      {changed_by !== null && (
        <>
          {' by '}
          <HostileText text={changed_by} max={60} />
        </>
      )}
      {' · '}
      <Link to="/rules/lists">All lists</Link>
    </>
  )
}

function OpenList({ list }: { list: ListView }) {
  const navigate = route.useNavigate()
  const [asked, setAsked] = useState<'edit' | 'delete'>()
  const close = () => setAsked(undefined)
  const isUsed = list.rules.length > 0
  return (
    <Screen
      title={list.name}
      lead={<Origin list={list} />}
      actions={
        <>
          <AddEntries name={list.name} />
          <OperatorButton onClick={() => setAsked('edit')}>Edit…</OperatorButton>
          <OperatorButton kind="danger" disabled={isUsed} onClick={() => setAsked('delete')}>
            Delete…
          </OperatorButton>
        </>
      }
    >
      <DataTable
        title="Used by"
        note={isUsed ? 'A list that rules use cannot be deleted.' : undefined}
        columns={[
          {
            name: 'Rule',
            cell: ({ id, title }) => (
              <Link to="/rules/$id" params={{ id }}>
                <HostileText text={title} max={120} />
              </Link>
            ),
          },
        ]}
        rows={list.rules}
        rowKey={({ id }) => id}
        empty={
          <>
            No rule uses the list. One names it with the modifier expand: <code>{`'%${list.name}%'`}</code>
          </>
        }
        isStacked={false}
      />
      <Entries list={list} />
      {asked === 'edit' && <EditDialog list={list} onClose={close} />}
      {asked === 'delete' && (
        <ChangeDialog
          changes={changes}
          title={`Delete ${list.name}?`}
          submit="Delete list"
          kind="act"
          send={async () => {
            await call('deleteList', { params: { name: list.name } })
            // Navigates first: otherwise this page would request the deleted list again.
            await navigate({ to: '/rules/lists' })
            return 'List deleted.'
          }}
          onClose={close}
        >
          <p>The list and its {entriesText(list.count)} are deleted. This cannot be undone.</p>
        </ChangeDialog>
      )}
    </Screen>
  )
}

/** One list: its entries, and the rules that use it. */
export function ListPage() {
  const { name } = route.useParams()
  const { data, error } = useQuery(listQuery(name))
  if (data) return <OpenList key={name} list={data} />
  return (
    <Screen title="List" lead={<Link to="/rules/lists">All lists</Link>}>
      <Fault of={error} />
    </Screen>
  )
}
