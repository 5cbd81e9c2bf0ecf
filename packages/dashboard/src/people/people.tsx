import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import type { Person, SignIn } from '@wardline/contract'
import { useRef, useState } from 'react'
import { peopleQuery } from '../data/people.ts'
import { type Session, sessionQuery } from '../data/session.ts'
import { signInQuery } from '../data/sign-in.ts'
import { SearchField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { EmptyState, Fault, Panel, Screen } from '../ui/panel.tsx'
import { useRows } from '../ui/rows.ts'
import { useKeys } from '../ui/shortcuts.ts'
import { type Column, DataTable } from '../ui/table.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { Time } from '../ui/time.tsx'
import { Role } from './role.tsx'
import { Roles } from './roles.tsx'
import type { PeopleSearch } from './search.ts'
import { SetUp, SignInSettings } from './sign-in-settings.tsx'

const PersonDrawer = lazyDialog(async () => (await import('./person-drawer.tsx')).PersonDrawer)

const route = getRouteApi('/inside/people')

const columnsOf = (ownId: string): readonly Column<Person>[] => [
  {
    name: 'Person',
    cell: ({ id, name, email }) => (
      <>
        <Link from="/people" search={(before) => ({ ...before, person: id })} replace>
          <HostileText text={name} max={100} line />
        </Link>
        {id === ownId && ' (you)'}
        {email !== null && (
          <div className="quiet">
            <HostileText text={email} max={100} />
          </div>
        )}
      </>
    ),
  },
  { name: 'Role', cell: (person) => <Role person={person} /> },
  { name: 'Last sign-in', kind: 'number', isWide: true, cell: ({ signed_in_at }) => <Time at={signed_in_at} /> },
  { name: 'Open sessions', kind: 'number', cell: ({ sessions }) => sessions.toLocaleString('en') },
]

interface ListProps {
  people: readonly Person[] | undefined
  fault: unknown
  ownId: string
  onShow(change: Partial<PeopleSearch>): void
}

function PeopleList({ people, fault, ownId, onShow }: ListProps) {
  const { q = '' } = route.useSearch()
  const [text, setText] = useState(q)
  const field = useRef<HTMLInputElement>(null)
  const found = people?.filter(({ name, email, role, role_by }) =>
    [name, email, role, role_by].join('\n').toLowerCase().includes(q.toLowerCase()),
  )
  const { at } = useRows(found ?? [], { Enter: ({ id }) => onShow({ person: id }) })
  useKeys({ '/': () => field.current?.focus() })
  return (
    <>
      <div className="chips">
        <SearchField
          field={field}
          label="Filter by name, mail address, role or group"
          value={text}
          onChange={(next) => {
            setText(next)
            onShow({ q: next || undefined })
          }}
        />
      </div>
      <DataTable
        label="People, who signed in last first"
        fault={fault}
        columns={columnsOf(ownId)}
        rows={found}
        rowKey={({ id }) => id}
        at={at}
        empty={q === '' ? 'Nobody has signed in at the provider yet.' : 'No matching people.'}
      />
    </>
  )
}

function ByProvider({ signIn, ownId }: { signIn: SignIn; ownId: string }) {
  const { view = 'people', person } = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error } = useQuery(peopleQuery)
  const show = (change: Partial<PeopleSearch>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  return (
    <>
      <Tabs
        label="Views of people"
        value={view}
        tabs={[
          { value: 'people', name: 'People', note: data?.length },
          { value: 'roles', name: 'Roles' },
          { value: 'sign-in', name: 'Sign-in' },
        ]}
        onChange={(next) => void navigate({ search: { view: next === 'people' ? undefined : next } })}
      >
        {view === 'people' && <PeopleList people={data} fault={error} ownId={ownId} onShow={show} />}
        {view === 'roles' && <Roles people={data ?? []} own={data?.find(({ id }) => id === ownId)} />}
        {view === 'sign-in' && <SignInSettings signIn={signIn} />}
      </Tabs>
      {person !== undefined && (
        <PersonDrawer key={person} id={person} isOwn={person === ownId} onClose={() => show({ person: undefined })} />
      )}
    </>
  )
}

function ForAdmins({ ownId }: { ownId: string }) {
  const { data: signIn, error } = useQuery(signInQuery)
  return (
    <Screen
      title="People"
      lead={
        signIn?.provider && (
          <>
            People sign in at <HostileText text={signIn.provider.name} max={60} />
            {signIn.people_only ? '; keys open no sessions.' : ', or with a key.'}
          </>
        )
      }
    >
      <Fault of={error} />
      {signIn && (signIn.provider ? <ByProvider signIn={signIn} ownId={ownId} /> : <SetUp />)}
    </Screen>
  )
}

const ForOthers = ({ session }: { session: Session }) => (
  <Screen title="People">
    <Panel label="Required scope">
      <EmptyState>
        Managing people requires scope admin. You are signed in as <HostileText text={session.name} max={60} /> with
        scope {session.scope}.
      </EmptyState>
    </Panel>
  </Screen>
)

/** Who signs in at the provider, with which role. */
export function People() {
  const { data: session } = useQuery(sessionQuery)
  if (!session) return <Screen title="People" />
  return session.scope === 'admin' ? <ForAdmins ownId={session.key_id} /> : <ForOthers session={session} />
}
