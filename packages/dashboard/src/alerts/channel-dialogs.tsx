import { useQuery } from '@tanstack/react-query'
import {
  type ChannelType,
  channelKinds,
  channelTypes,
  type NewChannel,
  type QuietHours,
  type Severity,
  severities,
} from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { type Channel, maxMessages, messagesQuery } from '../data/alerts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { Snippet } from '../parts/snippet.tsx'
import { ConfirmButton } from '../ui/button.tsx'
import { Drawer, FormDialog } from '../ui/dialog.tsx'
import { Check, FieldGroup, fieldText, SelectField, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Fault, Notice, Panel } from '../ui/panel.tsx'
import { Facts } from '../ui/table.tsx'
import { Time, useNow } from '../ui/time.tsx'
import { healthText } from './alert-texts.ts'
import css from './alerts.module.css'
import { ChannelState, LastError, MessageLine, TestButton, testResult, useTest } from './channel-parts.tsx'
import { type SettingField, settingFields, settingsOf } from './setting-fields.ts'

interface ChannelDrawerProps {
  channel: Channel
  onEdit(): void
  onClose(): void
}

/** One channel: its state, the messages sent to it, and its receiver's responses. */
export function ChannelDrawer({ channel, onEdit, onClose }: ChannelDrawerProps) {
  const now = useNow()
  const test = useTest()
  const { quiet_hours: quiet } = channel
  return (
    <Drawer label="Channel" actions={<Actions channel={channel} onEdit={onEdit} onClose={onClose} />} onClose={onClose}>
      <p>
        <ChannelState channel={channel} /> <span className="quiet">{channel.type}</span>
      </p>
      <h2>
        <HostileText text={channel.name} max={80} />
      </h2>
      <p>{healthText(channel, now)}.</p>
      <LastError channel={channel} />
      <p>
        <TestButton channel={channel} test={test} />
      </p>
      {testResult({ channel, test })}
      <Facts
        facts={[
          ['Destination', <HostileText key="destination" text={channel.destination} />, true],
          [
            'Filter',
            `${channel.min_severity} and above, at most ${counted(channel.max_per_minute, 'message')} per minute`,
          ],
          [
            'Quiet hours',
            quiet ? (
              <HostileText
                text={`${quiet.from} to ${quiet.to}, ${quiet.time_zone}; ${quiet.min_severity ?? 'critical'} and above are sent immediately`}
              />
            ) : (
              'none'
            ),
          ],
          ['On resolve', channel.send_resolved ? 'sends a message' : 'sends nothing'],
          ...(channel.decides ? [['Buttons', 'decide approvals'] as const] : []),
          ['Daily check', channel.daily_check ? 'on' : 'off'],
          ...(channel.type === 'email' ? [['Mail to people', channel.personal_mail ? 'on' : 'off'] as const] : []),
          ['Managed by', channel.managed_by === 'environment' ? 'environment variables' : 'API'],
        ]}
      />
      <Messages id={channel.id} />
    </Drawer>
  )
}

function Actions({ channel, onEdit, onClose }: ChannelDrawerProps) {
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.channels] })
  const { id, managed_by, waiting, dead } = channel
  const retry = async () => {
    const { replayed } = await call('replayChannel', { params: { id } })
    return `${counted(replayed, 'message')} queued again.`
  }
  const remove = async () => {
    if (await run(() => call('deleteChannel', { params: { id } }), 'Channel deleted.')) onClose()
  }
  return (
    <>
      <OperatorButton onClick={onEdit}>Edit…</OperatorButton>
      {managed_by === 'api' && (
        <ConfirmButton
          as={OperatorButton}
          disabled={isBusy}
          sure={`Delete it${waiting > 0 ? `, with ${counted(waiting, 'pending message')}` : ''}`}
          onConfirm={() => void remove()}
        >
          Delete…
        </ConfirmButton>
      )}
      {dead > 0 && (
        <OperatorButton disabled={isBusy} onClick={() => void run(retry)}>
          Retry {counted(dead, 'failed message')}
        </OperatorButton>
      )}
      <Fault of={fault} />
    </>
  )
}

const stateWords = { pending: 'pending', delivered: 'delivered', dead: 'failed' } as const

function Messages({ id }: { id: string }) {
  const { data, error } = useQuery(messagesQuery(id))
  return (
    <Panel title="Messages" level={3} note={`newest ${maxMessages}`}>
      <Fault of={error} isInPanel />
      {data?.length === 0 && <EmptyState>No messages yet.</EmptyState>}
      <ul>
        {data?.map((message) => (
          <MessageLine key={message.id} id={message.id} of={message}>
            <Time at={message.created_at} /> <HostileText text={message.title} max={200} />{' '}
            {message.person_id !== null && <span className="quiet">to a person, </span>}
            <span className={message.state === 'dead' ? 'critical' : 'quiet'}>
              {stateWords[message.state]}, {counted(message.attempts, 'attempt')}
            </span>
          </MessageLine>
        ))}
      </ul>
    </Panel>
  )
}

/** Options that are on or off; default: on. */
const switches = [
  ['send_resolved', 'Notify when a sent alert is resolved'],
  ['daily_check', 'Send a daily test, and report its failure to the other channels'],
  ['enabled', 'Enabled (alerts missed while disabled are not sent later)'],
] as const

function optionsOf(form: FormData) {
  const text = (name: string) => fieldText(form, name)
  const min_severity = text('min_severity') as NonNullable<QuietHours['min_severity']>
  const quiet = { from: text('from'), to: text('to'), time_zone: text('time_zone'), min_severity }
  return {
    name: text('name'),
    min_severity: text('min_severity') as Severity,
    max_per_minute: Number(text('max_per_minute')),
    ...Object.fromEntries(switches.map(([name]) => [name, form.has(name)])),
    personal_mail: form.has('personal_mail'),
    quiet_hours: quiet.from && quiet.to ? quiet : null,
  }
}

interface ChannelFormProps {
  /** Absent for a new channel. */
  channel?: Channel
  onClose(): void
  onDone(id: string): void
}

/**
 * Form for a channel's settings and options. The contract defines the fields. Values stay in the form's inputs, so no
 * page state and no cache contains a secret.
 */
export function ChannelForm({ channel, onClose, onDone }: ChannelFormProps) {
  const [type, setType] = useState<ChannelType>(channel?.type ?? 'webhook')
  const [created, setCreated] = useState<{ id: string; secret: string }>()
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.channels] })
  const isFixed = channel?.managed_by === 'environment'
  const fields = isFixed ? [] : settingFields(type)
  const action = channel ? 'Edit channel' : 'Add channel'
  const { description: about } = channelKinds[type].settings as { description?: string }

  async function save(form: FormData) {
    const settings = settingsOf(fields, form)
    const options = optionsOf(form)
    if (channel) {
      // Empty settings are unchanged: they are secret and cannot be shown for editing.
      const body = Object.keys(settings).length > 0 ? { ...options, settings } : options
      await call('changeChannel', { params: { id: channel.id }, body })
      onDone(channel.id)
      return 'Channel saved.'
    }
    const { id, secret } = await call('createChannel', { body: { ...options, type, settings } as NewChannel })
    if (secret === undefined) onDone(id)
    else setCreated({ id, secret })
    return 'Channel created.'
  }
  return (
    <FormDialog
      title={created ? 'Channel created' : action}
      submit={channel ? 'Save' : 'Add channel'}
      isBusy={isBusy}
      fault={fault}
      done={
        created && (
          <>
            <Notice>Copy the secret into the receiver now: it signs the messages and is shown only once.</Notice>
            <Snippet label="Signing secret" text={created.secret} />
          </>
        )
      }
      onClose={() => (created ? onDone(created.id) : onClose())}
      onSubmit={(form) => void run(() => save(form))}
    >
      {!channel && (
        <SelectField
          label="Type"
          value={type}
          options={channelTypes.map((one) => [one, channelKinds[one].label] as const)}
          onChange={({ target }) => setType(target.value as ChannelType)}
        />
      )}
      <TextField
        label="Name"
        name="name"
        isFirst
        required
        maxLength={80}
        autoComplete="off"
        defaultValue={channel?.name}
      />
      {isFixed && <p className="quiet">Environment variables set the other settings of this channel.</p>}
      {channel && !isFixed && (
        <p className="quiet">Saved settings are never shown. Leave them empty to keep them, or fill in all of them.</p>
      )}
      {fields.length > 0 && about !== undefined && <p className="quiet">{about}.</p>}
      {fields.map((field) => (
        <SettingInput key={`${type} ${field.name}`} field={field} isNew={!channel} />
      ))}
      <details className={css.more} open={channel !== undefined}>
        <summary>Filters and quiet hours</summary>
        <Options key={type} channel={channel} type={type} />
      </details>
    </FormDialog>
  )
}

function Options({ channel, type }: { channel: Channel | undefined; type: ChannelType }) {
  const isForPeople = channelKinds[type].audience === 'people'
  return (
    <div>
      <SelectField
        label="Minimum severity"
        name="min_severity"
        defaultValue={channel?.min_severity ?? (isForPeople ? 'warning' : 'info')}
        options={severities}
      />
      <TextField
        label="Maximum messages per minute"
        name="max_per_minute"
        type="number"
        min={1}
        max={60}
        required
        defaultValue={channel?.max_per_minute ?? 20}
      />
      {switches.map(([name, label]) => (
        <Check key={name} label={label} name={name} defaultChecked={channel?.[name] ?? true} />
      ))}
      {type === 'email' && (
        <Check
          label="Its server also sends people the alerts that they chose to get by mail"
          name="personal_mail"
          defaultChecked={channel?.personal_mail ?? false}
        />
      )}
      {isForPeople && <QuietHoursFields hours={channel?.quiet_hours} />}
    </div>
  )
}

function QuietHoursFields({ hours }: { hours: Channel['quiet_hours'] | undefined }) {
  const zone = hours?.time_zone ?? new Intl.DateTimeFormat().resolvedOptions().timeZone
  return (
    <FieldGroup label="Quiet hours: less severe alerts are sent together when they end">
      <TextField label="From" name="from" type="time" defaultValue={hours?.from} />
      <TextField label="To" name="to" type="time" defaultValue={hours?.to} />
      <TextField label="Time zone" name="time_zone" maxLength={64} defaultValue={zone} />
      <SelectField
        label="Send immediately"
        name="min_severity"
        defaultValue={hours?.min_severity ?? 'critical'}
        options={[['critical', 'critical and breach'], 'breach']}
      />
    </FieldGroup>
  )
}

function SettingInput({ field, isNew }: { field: SettingField; isNew: boolean }) {
  const { name, label, hint, isRequired, isSecret, isList, choices, maxLength } = field
  const common = {
    label: isRequired ? label : `${label} (optional)`,
    hint: isList ? `${hint}; several separated by commas` : hint,
    name: `setting ${name}`,
  }
  return choices.length > 0 ? (
    <SelectField {...common} defaultValue="" options={[['', 'default'], ...choices]} />
  ) : (
    <TextField
      {...common}
      type={isSecret ? 'password' : 'text'}
      autoComplete={isSecret ? 'new-password' : 'off'}
      spellCheck={false}
      required={isRequired && isNew}
      maxLength={maxLength}
    />
  )
}
