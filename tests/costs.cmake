# Approximate seconds of the long tests, so that ctest starts with the longest on a machine that has no record of them.
set(_costs
    cluster/Pbs=106 reports/Browser=80 engine/Product.8=67 engine/Layouts.ZeroRedundancy=60
    perfmodel/Suggest.TwoPercentRegretNeedsHalfOfTheTrialsOfRandomOrder=60 engine/Layouts.Combined=52 sweep/Fuzz=50
    cuda/NcclFaults.EndTheRunInTimeWithRankAndOp=48 engine/RegionalGnnTraining.IsTheSameInChunksOfEdges=47
    cuda/EmulatedRanks.TrainLikeOne=47 engine/AuroraTraining.IsTheSameWhereAllAxesCut=46
    cli/Options.ASearchKeepsToWhatIsSet=45 engine/Signals.StopAllRanksAfterOneStepWithACheckpointToGoOnFrom=44
    cuda/EmulatedRanks.TakeTheLargestMicroBatchThatFitsAsPredicted=42 reports/BrowserManyRuns=41
    cuda/EmulatedRanks.TrainOnFieldsThatAreMissingInPartLikeOne=41 engine/Product.6=40 engine/Product.7=40
    engine/GraphcastTraining.IsTheSameWhereItsMlpsAreCut=39 cuda/EmulatedRanks.TrainANetWithASkipLikeOne=38
    engine/GraphcastTraining.IsTheSameInChunksOfEdges=37 perfmodel/ClosedFormAndReplay.AgreeOnRandomLayouts=36
    engine/Product.4=36 engine/RegionalGnnTraining.IsTheSameWhereItsMlpsAreCut=36 cuda/ScriptRehearsal=35
    perfmodel/Scoreboard.StepTimes=34 engine/SlowDisk.SoMayStartingReadingValidationAndResults=32
    engine/Layouts.RandomLegalOnes=31 engine/Layouts.SerialAndOverlappedAreTheSameToTheBit=31
    engine/Replay.StepsTrainOnTheNetsOwnForecasts=29 engine/GraphcastTraining.IsTheSameWhereAllAxesCut=28
    engine/RegionalGnnTraining.CutsMlpsOfAnyDepth=27 sweep/Chaos=26
    engine/AuroraTraining.IsTheSameWithItsEndsOnStagesOfTheirOwn=26
    engine/AuroraTraining.IsTheSameInRandomLegalLayouts=25 engine/Layouts.Fp16SkipsOverflowsOnAllRanksAlike=25
    engine/Product.5=25 engine/AuroraTraining.RecomputesItsParts=24
    engine/AdaptedAurora.TrainsItsAdaptersAloneLikeOneRank=24 engine/Product.3=24 cuda/Libraries=24
    import/Ties.TheChanceThatOneIsFasterIsThatOfPublishedPairs=24
    engine/AuroraTraining.IsTheSameOverBandsOfLatitudes=23 engine/Wire.CutGraphs=23 cuda/Resources=22 engine/Lora.4=22
    engine/Layouts.ZeroBubble=22 perfmodel/Fit.HoldsWhereTheTermsDoNotTellEverything=22
    engine/AuroraTraining.KeepsItsEndsInFp32=22 engine/Layouts.TensorParallel=21
    engine/Replay.EveryLayoutTrainsLikeOneRank=21 engine/Layouts.ContextParallelRing=20
    perfmodel/ClosedFormAndReplay.AgreeOnAurora=20 engine/RegionalGnnTraining.IsTheSameWhereTheGraphIsCut=19
    data/Foreign.WhatTheLibraryNeverComesToTheEndOf=19
    engine/Replay.OtherNetsAndIncrementsTrainLikeOneRank=19 base/Child.DiesAlone=19)
get_property(_named DIRECTORY PROPERTY TESTS)
foreach(_cost ${_costs})
  string(REGEX MATCH "^(.*)=([0-9]+)$" _ ${_cost})
  # Included twice: by CMake, for names of add_test, and by ctest, for names found in GoogleTest programs
  list(FIND _named ${CMAKE_MATCH_1} _at)
  if(NOT CMAKE_PROJECT_NAME OR NOT _at EQUAL -1)
    set_tests_properties(${CMAKE_MATCH_1} PROPERTIES COST ${CMAKE_MATCH_2})
  endif()
endforeach()
