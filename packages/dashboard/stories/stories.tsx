import { CSPProvider } from '@base-ui/react/csp-provider'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { type ReactNode, useRef, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { useChange } from '../src/data/change.ts'
import '../src/ui/base.css'
import { Button, Chip, ChipGroup, ConfirmButton, RemovableChip } from '../src/ui/button.tsx'
import { Combobox } from '../src/ui/combobox.tsx'
import { Dialog, DialogFoot, Drawer, FormDialog, stepsOf } from '../src/ui/dialog.tsx'
import { Check, FieldGroup, SearchField, SelectField, TextArea, TextField, Tick } from '../src/ui/field.tsx'
import { HostileText } from '../src/ui/hostile-text.tsx'
import { Menu } from '../src/ui/menu.tsx'
import { EmptyState, Fault, Notice, Panel, Screen, Stat, Stats } from '../src/ui/panel.tsx'
import { DataTable, Facts } from '../src/ui/table.tsx'
import { Tabs } from '../src/ui/tabs.tsx'
import { Toaster } from '../src/ui/toaster.tsx'
import { VirtualRows } from '../src/ui/virtual-rows.tsx'

const { searchParams } = new URL(location.href)

/** Names and texts of others, in the three kinds that break layouts. */
const text = {
  short: 'support-bot-7',
  long: `${'averylongnamewithoutanyspace'.repeat(12)} ${'and many words '.repeat(20)}`,
  rtl: 'وكيل الدعم الفني رقم ٧ \u202eexe.txt',
}[searchParams.get('text') ?? 'short']!
const other = <HostileText text={text} max={400} />

function Buttons() {
  const [said, setSaid] = useState('nothing')
  const [status, setStatus] = useState<'open' | 'resolved'>()
  return (
    <Panel title="Buttons" note={said} end={<Button kind="go">Create</Button>}>
      <div className="chips">
        <Button shortcut="s" about={text} onClick={() => setSaid('pressed')}>
          Suspend
        </Button>
        <Button kind="danger">Suspend all…</Button>
        <Button kind="act">Suspend</Button>
        <Button kind="plain">Clear</Button>
        <Button disabled>Disabled</Button>
        <ConfirmButton sure="Delete it" about={text} onConfirm={() => setSaid('deleted')}>
          Delete…
        </ConfirmButton>
        <Chip isOn count={12}>
          Mine
        </Chip>
        <RemovableChip onRemove={() => setSaid('removed')}>
          <HostileText text={text} line max={60} />
        </RemovableChip>
      </div>
      <ChipGroup
        label="Status"
        value={status}
        all={{ name: 'All', count: null }}
        options={[
          { value: 'open', name: 'Open', count: 3 },
          { value: 'resolved', name: 'Resolved', count: 1_200 },
        ]}
        onChange={setStatus}
      />
    </Panel>
  )
}

function Panels() {
  return (
    <Screen title={`Agents of ${text}`} lead={other} actions={<Button>Export…</Button>}>
      <Stats label="Figures">
        <Stat name="Suspended" value={12} kind="suspended" note="of 212" />
        <Stat name="Breaches" value={1} kind="breach" />
      </Stats>
      <Notice>{other}</Notice>
      <Notice kind="suspended">This is your key.</Notice>
      <Fault of={new Error(`No channel has the name ${text}`)} />
      <Panel title="Alerts" note={other} end={<Button>Add…</Button>}>
        <EmptyState action={<Button kind="go">Set up a channel</Button>}>No alerts.</EmptyState>
      </Panel>
      <Panel title="Details">
        <Facts
          facts={[
            ['agent', other],
            ['session', 'a1b2', true],
            ['missing', null],
          ]}
        />
      </Panel>
    </Screen>
  )
}

function Fields() {
  const [filter, setFilter] = useState('')
  const field = useRef<HTMLInputElement>(null)
  return (
    <Panel title="Fields">
      <div className="stack">
        <SearchField field={field} label="Filter by name" value={filter} onChange={setFilter} />
        <TextField label="Name" hint={other} defaultValue={text} maxLength={4_000} />
        <TextField label="Key" isCode defaultValue="wl_live_0" />
        <TextArea label="Reason" rows={3} defaultValue={text} />
        <SelectField label="Valid for" options={[['1', '1 day'], ['7', '7 days'], 'no limit']} />
        <FieldGroup label="Channels">
          <Check label={other} defaultChecked />
          <Check label="Archive" type="radio" name="one" />
        </FieldGroup>
        <Tick label="Select the row" />
      </div>
    </Panel>
  )
}

const rows = Array.from({ length: 30 }, (_, index) => ({
  id: `row-${index}`,
  name: `${index} ${text}`,
  count: index * 997,
}))

function Tables() {
  return (
    <DataTable
      label="Keys, newest first"
      title="Keys"
      note={other}
      at={1}
      maxRows={10}
      rows={searchParams.has('empty') ? [] : rows}
      rowKey={({ id }) => id}
      empty="No keys."
      columns={[
        { name: 'key', cell: ({ name }) => <HostileText text={name} max={200} /> },
        { name: 'last use', kind: 'word', isWide: true, cell: () => '12:30' },
        { name: 'count', kind: 'number', cell: ({ count }) => count.toLocaleString('en') },
        { name: 'actions', isNameHidden: true, cell: ({ id }) => <Button about={id}>Revoke…</Button> },
      ]}
    />
  )
}

function Rows() {
  const scroller = useRef<HTMLDivElement>(null)
  const [at, setAt] = useState(0)
  return (
    <Panel title="Events" end={<Button onClick={() => setAt(5_000)}>Go to row 5,000</Button>}>
      <div
        ref={scroller}
        style={{ height: 200, overflow: 'auto' }}
        tabIndex={0}
        role="group"
        aria-label="List of events"
      >
        <VirtualRows
          scroller={scroller}
          count={100_000}
          heightOf={() => 30}
          keyOf={(index) => index}
          at={at}
          role="list"
          row={(index, style) => (
            <div key={index} role="listitem" style={style}>
              <HostileText text={`Row ${index} ${text}`} line />
            </div>
          )}
        />
      </div>
    </Panel>
  )
}

function Dialogs() {
  const [open, setOpen] = useState<'dialog' | 'form' | 'drawer'>()
  const [row, setRow] = useState('row-1')
  const { isBusy, fault, run } = useChange({ changes: [] })
  const close = () => setOpen(undefined)
  return (
    <Panel title="Dialogs">
      <Button onClick={() => setOpen('dialog')}>Open the dialog</Button>
      <Button onClick={() => setOpen('form')}>Open the form</Button>
      <Button onClick={() => setOpen('drawer')}>Open the drawer</Button>
      {open === 'dialog' && (
        <Dialog title={other} onClose={close}>
          <p>{other}</p>
          <DialogFoot>
            <Button onClick={() => setOpen('form')}>Next</Button>
            <Button onClick={close}>Close</Button>
          </DialogFoot>
        </Dialog>
      )}
      {open === 'form' && (
        <FormDialog
          title="Assign"
          submit="Assign"
          isBusy={isBusy}
          fault={fault}
          extra={<Button>No one</Button>}
          onClose={close}
          onSubmit={(form) =>
            void run(async () => {
              const name = String(form.get('name'))
              if (name === 'nobody') throw new Error(`No person has the name ${name}.`)
              return `Assigned to ${name}.`
            }).then((isDone) => isDone && close())
          }
        >
          <TextField label="Name" name="name" isFirst required />
        </FormDialog>
      )}
      {open === 'drawer' && (
        <Drawer
          label="Event"
          steps={stepsOf(
            rows.map(({ id }) => id),
            row,
            setRow,
          )}
          onClose={close}
        >
          <h2>{row}</h2>
          <p>{other}</p>
          <TextField label="Note" />
        </Drawer>
      )}
    </Panel>
  )
}

function Choices() {
  const [tab, setTab] = useState<'queue' | 'channels'>('queue')
  const [said, setSaid] = useState('nothing')
  const [query, setQuery] = useState('')
  const found = rows.filter(({ name }) => name.includes(query)).slice(0, 8)
  return (
    <div className="stack">
      <Tabs
        label="Views"
        value={tab}
        tabs={[
          { value: 'queue', name: 'Queue', note: 3 },
          { value: 'channels', name: 'Channels' },
        ]}
        onChange={setTab}
      >
        <Panel title={tab === 'queue' ? 'Alerts' : 'Channels'}>
          <p>{other}</p>
        </Panel>
      </Tabs>
      <p role="status">{said}</p>
      <Menu
        name="Actions"
        about={text}
        items={[
          { name: 'Rotate…', onClick: () => setSaid('rotate') },
          { name: other, onClick: () => setSaid('other') },
          { name: 'Revoke…', isDangerous: true, onClick: () => setSaid('revoke') },
          { name: 'Not now', isDisabled: true, onClick: () => setSaid('never') },
        ]}
      />
      <Panel label="Search">
        <Combobox
          label="Search agents"
          value={query}
          items={found}
          keyOf={({ id }) => id}
          onChange={setQuery}
          onPick={({ id }) => setSaid(id)}
          item={({ name }) => <HostileText text={name} line />}
          note={found.length === 0 && `No results for "${query}".`}
        />
      </Panel>
    </div>
  )
}

const stories: Record<string, () => ReactNode> = { Buttons, Panels, Fields, Tables, Rows, Dialogs, Choices }
const Story = stories[searchParams.get('story') ?? ''] ?? (() => Object.keys(stories).join(' '))

createRoot(document.getElementById('root')!).render(
  <CSPProvider disableStyleElements>
    <QueryClientProvider client={new QueryClient()}>
      <main>
        <h1 className="only-read">Component kit</h1>
        <Story />
      </main>
      <Toaster />
    </QueryClientProvider>
  </CSPProvider>,
)
