#!/usr/bin/python3
"""Judges one Redfish service with sushy, the library of OpenStack Ironic (Debian: python3-sushy).

usage: sushy-check.py URL USER PASSWORD IMAGE [etags] [media]      one line per check; "N passed, N failed" last
`etags` and `media` skip what sushy cannot do: changes that need If-Match, virtual media of the system.
"""
import logging
import os
import sys
import time

import sushy
from sushy import auth as sushy_auth

url, user, password, image = sys.argv[1:5]
skipped = sys.argv[5:]
# The CA file, which check.ts sets for HTTPS.
ca = os.environ.get('REQUESTS_CA_BUNDLE', False)
logging.disable(logging.CRITICAL)
passed = failed = 0


def check(name, run):
    global passed, failed
    began = time.time()
    try:
        result = run()
    except Exception as error:
        failed += 1
        print(f'FAIL {name}: {type(error).__name__}: {str(error)[:200]}')
        return None
    passed += 1
    print(f'ok   {name}: {result} ({(time.time() - began) * 1000:.0f} ms)')
    return result


def reach(state, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        system.refresh(force=True)
        if system.power_state == state:
            return state
        time.sleep(0.05)
    raise TimeoutError(f'still {system.power_state}')


def equal(value, expected):
    if value != expected:
        raise AssertionError(f'{value!r} instead of {expected!r}')
    return value


def refused(run):
    try:
        run()
    except sushy.exceptions.AccessError as error:
        return type(error).__name__
    raise AssertionError('accepted')


def managers():
    try:
        return [one.identity for one in system.managers]
    except sushy.exceptions.MissingAttributeError:
        return [one.identity for one in root.get_manager_collection().get_members()]


def refused_value():
    try:
        system.bios.set_attribute('LogicalProc', 'Sideways')
    except sushy.exceptions.BadRequestError as error:
        return type(error).__name__
    raise AssertionError('accepted')


session = sushy_auth.SessionAuth(username=user, password=password)
root = sushy.Sushy(url, verify=ca, auth=session)
check('version', lambda: root.redfish_version)
check('session', lambda: equal(bool(session.get_session_key()), True))
check('wrong password is refused', lambda: refused(
    lambda: sushy.Sushy(url, verify=ca, auth=sushy_auth.SessionAuth(username=user, password='wrong')).get_system_collection()))
system = check('system', lambda: root.get_system_collection().get_members()[0])
check('power is off', lambda: equal(system.power_state, sushy.PowerState.OFF))
check('reset types', lambda: sorted(one.value for one in system.get_allowed_reset_system_values()))
check('boot sources', lambda: sorted(one.value for one in system.get_allowed_system_boot_source_values()))
check('boot from PXE once', lambda: system.set_system_boot_options(
    sushy.BootSource.PXE, enabled=sushy.BootSourceOverrideEnabled.ONCE))
check('boot source read back', lambda: (
    system.refresh(force=True), equal(system.boot.target, sushy.BootSource.PXE))[1])
check('on', lambda: (system.reset_system(sushy.ResetType.ON), reach(sushy.PowerState.ON))[1])
check('boot once is used up', lambda: (
    system.refresh(force=True), equal(system.boot.enabled, sushy.BootSourceOverrideEnabled.DISABLED))[1])
check('restart', lambda: (system.reset_system(sushy.ResetType.FORCE_RESTART), reach(sushy.PowerState.ON))[1])
check('boot from disk continuously', lambda: system.set_system_boot_options(
    sushy.BootSource.HDD, enabled=sushy.BootSourceOverrideEnabled.CONTINUOUS))
check('off', lambda: (system.reset_system(sushy.ResetType.FORCE_OFF), reach(sushy.PowerState.OFF))[1])
check('processors', lambda: equal(len(system.processors.get_members()), 2))
check('managers', managers)
check('chassis', lambda: [one.identity for one in root.get_chassis_collection().get_members()])
if 'EthernetInterfaces' in system.json:
    check('MAC addresses', lambda: equal(len(system.ethernet_interfaces.summary), 2))
check('drives', lambda: equal(sum(len(one.drives) for one in system.storage.get_members()), 4))
check('BIOS attributes', lambda: len(system.bios.attributes))
if 'etags' in skipped:
    print('skip BIOS and Secure Boot: sushy sends no If-Match for them')
else:
    check('BIOS set', lambda: system.bios.set_attribute('LogicalProc', 'Disabled'))
    check('BIOS wrong value is refused', refused_value)
    check('BIOS pending', lambda: (system.bios.refresh(force=True),
                                   equal(system.bios.pending_attributes['LogicalProc'], 'Disabled'))[1])
    check('BIOS applied by a start', lambda: (
        system.reset_system(sushy.ResetType.ON), reach(sushy.PowerState.ON), system.bios.invalidate(force_refresh=True),
        system.bios.refresh(force=True), equal(system.bios.attributes['LogicalProc'], 'Disabled'))[-1])
    check('off again', lambda: (system.reset_system(sushy.ResetType.FORCE_OFF), reach(sushy.PowerState.OFF))[1])
    if 'SecureBoot' in system.json:
        check('Secure Boot on', lambda: system.secure_boot.set_enabled(True))
        check('Secure Boot read back', lambda: (
            system.secure_boot.refresh(force=True), equal(system.secure_boot.enabled, True))[1])


def media():
    manager = root.get_manager_collection().get_members()[0]
    return [one for one in manager.virtual_media.get_members() if sushy.VirtualMediaType.CD in one.media_types][0]


if 'media' in skipped:
    print('skip virtual media: sushy 4.3 knows it on the manager only')
else:
    drive = check('virtual media', media)
    check('insert', lambda: drive.insert_media(image))
    check('inserted', lambda: (drive.refresh(force=True), equal((drive.inserted, drive.image), (True, image)))[1])
    check('eject', lambda: drive.eject_media())
    check('ejected', lambda: (drive.refresh(force=True), equal(bool(drive.inserted), False))[1])
check('firmware inventory', lambda: equal(root.get_update_service().firmware_inventory.json['Members@odata.count'], 5))
check('log out', lambda: session.close())
print(f'{passed} passed, {failed} failed')
sys.exit(1 if failed else 0)
