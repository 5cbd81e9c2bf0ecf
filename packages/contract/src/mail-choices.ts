import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { nullable } from './fields.ts'
import { Tags } from './instances.ts'
import { Type } from './type.ts'

export const mailLimits = {
  /** Mails to a person per hour: more are not read one by one, and mail providers throttle who sends more to an address. */
  perHour: 12,
} as const

const choice = {
  assigned: Type.Boolean({ description: 'Alerts that are assigned to the person' }),
  tags: Tags('Alerts on agents with one of these tags, set by operators or by the key of the agent'),
}

const MailChoice = Type.Object({
  ...choice,
  address: nullable(Type.String({ description: 'Mail address of the caller that the provider has verified' })),
  unavailable: nullable(Type.String({ description: 'Why the caller gets no mail; null: they get it' })),
})
export type MailChoice = Static<typeof MailChoice>

export const mailChoiceEndpoints = {
  getMailChoice: define({
    method: 'GET',
    path: '/api/mail-choice',
    access: access.readers,
    teams: 'global',
    feature: 'people',
    summary: 'Get which alerts the caller gets by mail, and at which address',
    status: 200,
    reply: MailChoice,
  }),
  setMailChoice: define({
    method: 'PUT',
    path: '/api/mail-choice',
    access: access.readers,
    teams: 'global',
    feature: 'people',
    summary: `Choose which alerts the caller gets by mail, at most ${mailLimits.perHour} mails an hour; for people who signed in at the provider`,
    body: Type.Object(choice, { additionalProperties: false }),
    status: 200,
    reply: MailChoice,
    failures: { 403: 'A key has no mail address' },
  }),
}
