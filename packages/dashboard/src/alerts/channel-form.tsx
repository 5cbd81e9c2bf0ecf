import {
  type ChannelChange,
  type ChannelType,
  channelSettings,
  channelTypes,
  type NewChannel,
  severities,
} from '@wardline/contract'
import { useState } from 'react'
import type { Channel } from '../data/alerts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy-button.tsx'
import { Dialog, DialogFoot, FormDialog } from '../ui/dialog.tsx'
import { Check, FieldGroup, SelectField, TextField } from '../ui/field.tsx'
import css from './alerts.module.css'
import { type SettingField, settingFields, settingsOf } from './setting-fields.ts'

const names: Record<ChannelType, string> = {
  webhook: 'Webhook',
  slack: 'Slack',
  discord: 'Discord',
  teams: 'Microsoft Teams',
  telegram: 'Telegram',
  pagerduty: 'PagerDuty',
  email: 'E-mail',
  ntfy: 'ntfy',
  apprise: 'Apprise',
  syslog: 'Syslog',
  splunk: 'Splunk',
}
/** Machines get every alert separately; silences and quiet hours are for people. */
const machines: readonly ChannelType[] = ['webhook', 'syslog', 'splunk']

interface ChannelFormProps {
  /** Absent for a new channel. */
  channel?: Channel
  onClose(): void
  onDone(id: string): void
}

function optionsOf(form: FormData) {
  const text = (name: string) => String(form.get(name) ?? '').trim()
  const hasQuietHours = text('quiet from') !== '' && text('quiet to') !== ''
  return {
    name: text('name'),
    min_severity: text('min_severity') as Channel['min_severity'],
    max_per_minute: Number(text('max_per_minute')),
    send_resolved: form.has('send_resolved'),
    daily_check: form.has('daily_check'),
    quiet_hours: hasQuietHours
      ? {
          from: text('quiet from'),
          to: text('quiet to'),
          time_zone: text('quiet zone'),
          least: text('quiet least') as 'critical' | 'breach',
        }
      : null,
  }
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
  const { description: about } = channelSettings[type] as { description?: string }

  async function save(form: FormData) {
    const settings = settingsOf(fields, form)
    const options = optionsOf(form)
    if (channel) {
      const body: ChannelChange = {
        ...options,
        enabled: form.has('enabled'),
        // Empty settings are unchanged: they are secret and cannot be shown for editing.
        ...(Object.keys(settings).length > 0 ? { settings } : {}),
      }
      await call('changeChannel', { params: { id: channel.id }, body })
      onDone(channel.id)
      return 'Channel saved.'
    }
    const { id, secret } = await call('createChannel', { body: { ...options, type, settings } as NewChannel })
    if (secret === undefined) onDone(id)
    else setCreated({ id, secret })
    return 'Channel created.'
  }
  if (created) return <SecretDialog secret={created.secret} onClose={() => onDone(created.id)} />
  return (
    <FormDialog
      title={channel ? 'Edit channel' : 'Add channel'}
      submit={channel ? 'Save' : 'Add channel'}
      isBusy={isBusy}
      fault={fault}
      onClose={onClose}
      onSubmit={(form) => void run(() => save(form))}
    >
      {!channel && (
        <SelectField
          label="Type"
          value={type}
          options={channelTypes.map((one) => [one, names[one]] as const)}
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
        defaultValue={channel?.name ?? ''}
      />
      {isFixed && <p className="quiet">Environment variables set the other settings of this channel.</p>}
      {channel && !isFixed && (
        <p className="quiet">Stored settings are never shown. Leave them empty to keep them, or fill in all of them.</p>
      )}
      {fields.length > 0 && about !== undefined && <p className="quiet">{about}.</p>}
      {fields.map((field) => (
        <SettingInput key={`${type} ${field.name}`} field={field} isNew={!channel} />
      ))}
      <details className={css.more} open={channel !== undefined}>
        <summary>Filters and quiet hours</summary>
        <Options key={type} channel={channel} isForPeople={!machines.includes(type)} />
      </details>
    </FormDialog>
  )
}

function SecretDialog({ secret, onClose }: { secret: string; onClose(): void }) {
  return (
    <Dialog title="Signing secret" closesOutside={false} onClose={onClose}>
      <p>Messages to this channel are signed with this secret. Store it in the receiver now: it is shown only once.</p>
      <pre className={`mono ${css.body}`}>{secret}</pre>
      <DialogFoot>
        <CopyButton name="Copy" text={secret} />
        <Button kind="go" onClick={onClose}>
          I have stored it
        </Button>
      </DialogFoot>
    </Dialog>
  )
}

function Options({ channel, isForPeople }: { channel: Channel | undefined; isForPeople: boolean }) {
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
      <Check
        label="Notify when a sent alert is resolved"
        name="send_resolved"
        defaultChecked={channel?.send_resolved ?? true}
      />
      <Check
        label="Send a daily test, and report its failure to the other channels"
        name="daily_check"
        defaultChecked={channel?.daily_check ?? true}
      />
      {channel && (
        <Check
          label="Enabled (alerts missed while disabled are not sent later)"
          name="enabled"
          defaultChecked={channel.enabled}
        />
      )}
      {isForPeople && <QuietHours hours={channel?.quiet_hours} />}
    </div>
  )
}

function QuietHours({ hours }: { hours: Channel['quiet_hours'] | undefined }) {
  return (
    <FieldGroup label="Quiet hours: less severe alerts are sent together at their end">
      <TextField label="From" name="quiet from" type="time" defaultValue={hours?.from ?? ''} />
      <TextField label="To" name="quiet to" type="time" defaultValue={hours?.to ?? ''} />
      <TextField
        label="Time zone"
        name="quiet zone"
        maxLength={64}
        defaultValue={hours?.time_zone ?? new Intl.DateTimeFormat().resolvedOptions().timeZone}
      />
      <SelectField
        label="Send immediately"
        name="quiet least"
        defaultValue={hours?.least ?? 'critical'}
        options={[
          ['critical', 'critical and breach'],
          ['breach', 'breach'],
        ]}
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
