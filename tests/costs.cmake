# Seconds of the long tests on two cores: ctest begins with the costliest, and a machine that has not run them yet knows none.
set(_costs
    engine/Product.8=120 perfmodel/Gears.ClosedFormAndReplayAgreeOnRandomLayouts=66 engine/Product.7=57
    perfmodel/Suggest.TwoPercentRegretNeedsHalfOfTheTrialsOfRandomOrder=56 engine/Layouts.ZeroRedundancy=51 engine/Product.6=50
    cli/Options.ASearchKeepsToWhatIsSet=48 engine/Layouts.Combined=46
    plan/Worlds.OfRandomLayoutsFitTogetherAndHoldEveryParameterOnce=43
    engine/Layouts.SerialAndOverlappedAreTheSameToTheBit=43 perfmodel/Scoreboard.StepTimes=43 engine/Product.3=40
    engine/Signals.StopAllRanksAfterOneStepWithACheckpointToGoOnFrom=40 cluster/Pbs=90
    perfmodel/LayoutModel.NeverExceedsTheCeilingIsMonotoneAndTheSameTwice=33 sweep/Fuzz=32 cuda/Libraries=28 sweep/Chaos=28
    engine/Product.5=27 engine/Product.4=27 engine/SlowDisk.SoMayStartingReadingValidationAndResults=26
    engine/Layouts.Fp16SkipsOverflowsOnAllRanksAlike=25 cuda/Resources=24 engine/Layouts.ZeroBubble=24
    reports/Browser=30 reports/BrowserManyRuns=15
    cpu/AttentionForward.TokensOfTheWeatherNetAtOneAndTwoThreads=17 engine/Layouts.ZeroStagesAreTheSameToTheBit=15
    sweep/RunnerTest.RanksOfARealMpiexecAreGoneAfterAHangACrashAndAKill=15
    sweep/RunnerTest.FaultsAreRecordedByClassAndTheSweepGoesOn=14 base/Child.DiesAlone=14 engine/Layouts.OtherLosses=14)
get_property(_named DIRECTORY PROPERTY TESTS)
foreach(_cost ${_costs})
  string(REGEX MATCH "^(.*)=([0-9]+)$" _ ${_cost})
  # Read twice: by CMake, which knows what add_test names, and by ctest, which knows what GoogleTest programs hold
  list(FIND _named ${CMAKE_MATCH_1} _at)
  if(NOT CMAKE_PROJECT_NAME OR NOT _at EQUAL -1)
    set_tests_properties(${CMAKE_MATCH_1} PROPERTIES COST ${CMAKE_MATCH_2})
  endif()
endforeach()
