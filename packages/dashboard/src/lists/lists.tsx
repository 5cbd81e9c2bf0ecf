import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type ListSummary, listLimits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { call } from '../data/client.ts'
import { listsQuery } from '../data/lists.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useMayOperate } from '../data/session.ts'
import { ChangeDialog, entered } from '../parts/change-dialog.tsx'
import { FilteredTable } from '../parts/filtered-table.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Fault, Panel, Screen } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import type { Column } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'

const route = getRouteApi('/inside/rules/lists')

/** Rules named in a row; others are counted. */
const shownRules = 3

const columns: readonly Column<ListSummary>[] = [
  {
    name: 'List',
    cell: ({ name, description, version }) => (
      <>
        <Link to="/rules/lists/$name" params={{ name }}>
          <HostileText text={name} max={64} line />
        </Link>
        <div className="quiet">
          v{version}
          {description !== '' && (
            <>
              {' · '}
              <HostileText text={description} max={120} />
            </>
          )}
        </div>
      </>
    ),
  },
  { name: 'Entries', kind: 'number', cell: ({ count }) => count.toLocaleString('en') },
  {
    name: 'Used by',
    cell: ({ rules }) =>
      rules.length === 0 ? (
        <span className="quiet">no rule</span>
      ) : (
        <>
          {rules.slice(0, shownRules).map(({ id, title }) => (
            <div key={id}>
              <Link to="/rules/$id" params={{ id }}>
                <HostileText text={title} max={80} line />
              </Link>
            </div>
          ))}
          {rules.length > shownRules && <div className="quiet">and {rules.length - shownRules} more</div>}
        </>
      ),
  },
  {
    name: 'Changed',
    kind: 'number',
    isWide: true,
    cell: ({ changed_at, changed_by }) => (
      <>
        <Time at={changed_at} />
        {changed_by !== null && (
          <div className="quiet">
            <HostileText text={changed_by} max={60} />
          </div>
        )}
      </>
    ),
  },
]

function NewList({ onClose }: { onClose(): void }) {
  const navigate = route.useNavigate()
  return (
    <ChangeDialog
      changes={[queryKeys.lists]}
      title="New list"
      submit="Create list"
      send={async (form) => {
        const name = entered(form, 'name')
        await call('putList', {
          params: { name },
          body: { description: entered(form, 'description'), entries: [], version: 0 },
        })
        await navigate({ to: '/rules/lists/$name', params: { name } })
        return 'List created.'
      }}
      onClose={onClose}
    >
      <TextField
        label="Name"
        hint="Lower-case letters, digits, _ and -. Rules name the list between percent signs."
        name="name"
        required
        isFirst
        isCode
        pattern="[a-z0-9_\-]+"
        maxLength={listLimits.name}
      />
      <TextField label="Description" name="description" maxLength={listLimits.description} autoComplete="off" />
    </ChangeDialog>
  )
}

/** Lists that rules name, and the rules that use each. */
export function Lists() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error } = useQuery(listsQuery)
  const mayOperate = useMayOperate()
  const [isNew, setNew] = useState(false)
  useKeys({ n: () => mayOperate && setNew(true) })
  return (
    <Screen
      title={data ? (data.length === 0 ? 'No lists' : counted(data.length, 'list')) : 'Lists'}
      lead={
        <>
          Hosts, addresses, paths or texts that rules name. <Link to="/rules">All rules</Link>
        </>
      }
      actions={
        <OperatorButton kind="go" shortcut="n" onClick={() => setNew(true)}>
          New list
        </OperatorButton>
      }
    >
      <Fault of={error} />
      {data && data.length > 0 && (
        <FilteredTable
          label="Lists by name"
          columns={columns}
          rows={data}
          rowKey={({ name }) => name}
          empty="No matching lists."
          filter={search}
          onFilter={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
          textLabel="Filter by name or rule"
          textOf={({ name, description, rules }) => [name, description, ...rules.map(({ title }) => title)].join('\n')}
          kindLabel="Use"
          kinds={{ used: 'Used', unused: 'Not used' }}
          isOf={({ rules }, kind) => rules.length > 0 === (kind === 'used')}
          onOpen={({ name }) => void navigate({ to: '/rules/lists/$name', params: { name } })}
        />
      )}
      {data?.length === 0 && (
        <Panel label="How lists work">
          <EmptyState>
            A list has entries that several rules need, or that change more often than a rule. A rule names it with the
            modifier <code>expand</code>: <code>{"metadata.hosts|domain|expand: '%allowed-hosts%'"}</code>
          </EmptyState>
        </Panel>
      )}
      {isNew && <NewList onClose={() => setNew(false)} />}
    </Screen>
  )
}
