import { type Severity, severities } from '@wardline/contract'
import type { ComponentProps } from 'react'
import { ChipGroup, RemovableChip } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'

const names: Record<Severity, string> = { info: 'Info', warning: 'Warning', critical: 'Critical', breach: 'Breach' }

interface SeverityChipsProps extends Omit<ComponentProps<typeof ChipGroup<Severity>>, 'label' | 'options'> {
  /** Undefined while it is loading. */
  countOf(severity: Severity): number | undefined
}

/** Filter by severity, the worst first, each with its count. */
export function SeverityChips({ countOf, ...group }: SeverityChipsProps) {
  const options = severities.toReversed().map((value) => ({ value, name: names[value], count: countOf(value) ?? null }))
  return <ChipGroup label="Severity" options={options} {...group} />
}

interface SetChipsProps<Name extends string> {
  /** Names of the filters that may be set. */
  names: Readonly<Record<Name, string>>
  search: { readonly [Key in NoInfer<Name>]?: string | undefined }
  onShow(change: { [Key in NoInfer<Name>]?: undefined }): void
}

/** The filters that are set, each with a button to remove it. */
export function SetChips<Name extends string>({ names, search, onShow }: SetChipsProps<Name>) {
  return (Object.keys(names) as Name[]).map((name) => {
    const value = search[name]
    return (
      value !== undefined && (
        <RemovableChip key={name} onRemove={() => onShow({ [name]: undefined } as { [Key in Name]?: undefined })}>
          {names[name]}: <HostileText text={value} line max={60} />
        </RemovableChip>
      )
    )
  })
}
