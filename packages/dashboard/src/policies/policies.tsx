import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { policyModes } from '@wardline/contract'
import { decisionsText, type ListedPolicy, policiesQuery, useDecisions } from '../data/policies.ts'
import { useMayOperate } from '../data/session.ts'
import { FileFaults } from '../parts/file-faults.tsx'
import { FilteredTable } from '../parts/filtered-table.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Fault, Panel, Screen } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import type { Column } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { audienceText, flowSentences, modeNames, modeSentences } from './policy-texts.ts'

const route = getRouteApi('/inside/policies')

function headingOf(policies: readonly ListedPolicy[]): string {
  if (policies.length === 0) return 'No policies'
  const enforced = policies.filter(({ mode }) => mode === 'enforce').length
  return `${policies.length === 1 ? '1 policy' : `${policies.length} policies`}, ${enforced} enforced`
}

const rulesText = (rules: ListedPolicy['rules']): string => {
  const parts = (['deny', 'ask', 'allow'] as const).flatMap((decision) => {
    const count = rules.filter((rule) => rule.decision === decision).length
    return count > 0 ? `${count} ${decision}` : []
  })
  return parts.length > 0 ? parts.join(', ') : 'no rules'
}

const columnsOf = ({ counts, isCut }: ReturnType<typeof useDecisions>): readonly Column<ListedPolicy>[] => [
  {
    name: 'Policy',
    cell: ({ id, title, version, file, flow }) => (
      <>
        <Link to="/policies/$id" params={{ id }}>
          <HostileText text={title} max={120} line />
        </Link>
        <div className="quiet">
          v{version} · {file === null ? 'API' : <HostileText text={`file ${file}`} max={100} />} · {flowSentences[flow]}
        </div>
      </>
    ),
  },
  {
    name: 'Mode',
    kind: 'word',
    cell: ({ mode, enforce_for }) => (
      <>
        <span className={mode === 'enforce' ? 'breach' : 'quiet'}>{mode}</span>
        {mode === 'observe' && enforce_for && (
          <div className="quiet">
            enforce for <HostileText text={audienceText(enforce_for)} max={100} />
          </div>
        )}
      </>
    ),
  },
  { name: 'For', cell: (policy) => <HostileText text={audienceText(policy.for)} max={120} /> },
  { name: 'Rules', kind: 'word', isWide: true, cell: ({ rules }) => rulesText(rules) },
  {
    name: 'Last 24 h',
    cell: ({ id }) => {
      const text = decisionsText(counts.get(id))
      if (text === undefined) return <span className="quiet">none</span>
      return isCut ? `${text} of the newest` : text
    },
  },
  { name: 'Changed', kind: 'number', isWide: true, cell: ({ changed_at }) => <Time at={changed_at} /> },
]

function Teaching() {
  return (
    <Panel label="How policies work">
      <EmptyState>
        A policy decides on a tool call before it runs, in the agent&apos;s own process: allow, ask a person, or deny.
      </EmptyState>
      <dl className="inner">
        {policyModes.map((mode) => (
          <div key={mode}>
            <dt>{modeNames[mode]}</dt>
            <dd>{modeSentences[mode]}</dd>
          </div>
        ))}
      </dl>
      <EmptyState>
        Start in mode observe, review what the policy would have said, then enforce it. Policies can also be loaded from
        a folder (<code>WARDLINE_POLICY_DIR</code>) or added with <code>wardline policy add policy.yml</code>.
      </EmptyState>
    </Panel>
  )
}

/** The policies of tool calls. */
export function Policies() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error } = useQuery(policiesQuery)
  const decisions = useDecisions((policy) => (typeof policy === 'string' ? policy : undefined))
  const mayOperate = useMayOperate()
  const write = () => void navigate({ to: '/policies/new' })
  useKeys({ n: () => mayOperate && write() })
  return (
    <Screen
      title={data ? headingOf(data.policies) : 'Policies'}
      lead={
        <>
          What agents may do, decided before each call. <Link to="/approvals">Approvals</Link>
        </>
      }
      actions={
        <OperatorButton kind="go" shortcut="n" onClick={write}>
          New policy
        </OperatorButton>
      }
    >
      <Fault of={error} />
      <FileFaults faults={data?.file_faults ?? []} />
      {data && data.policies.length > 0 && (
        <FilteredTable
          label="Policies by title"
          columns={columnsOf(decisions)}
          rows={data.policies}
          rowKey={({ id }) => id}
          empty="No matching policies."
          filter={search}
          onFilter={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
          textLabel="Filter by title, rule, tag or file"
          textOf={({ title, rules, file, for: { agents, tags } }) =>
            [title, ...rules.map((rule) => rule.title), ...agents, ...tags, file ?? ''].join('\n')
          }
          kindLabel="Mode"
          kinds={modeNames}
          isOf={({ mode }, kind) => mode === kind}
          onOpen={({ id }) => void navigate({ to: '/policies/$id', params: { id } })}
        />
      )}
      {data?.policies.length === 0 && <Teaching />}
    </Screen>
  )
}
